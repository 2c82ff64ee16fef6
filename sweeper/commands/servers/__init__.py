"""Commands that put servers of a study under load."""
