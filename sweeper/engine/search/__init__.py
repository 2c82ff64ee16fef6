"""Searching for the best values of continuous columns."""
