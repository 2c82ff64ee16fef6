"""Layouts of measured tables of microbenchmarks, of whole machines and of papers."""
