"""Asking a dataset, and drawing it."""
