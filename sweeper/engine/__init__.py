"""Equations over a factored space; knows no chip, study, YAML or path of a run."""
