"""Sensitivity of the best designs of a study to its numbers: which are varied, and the searches that are done again."""
