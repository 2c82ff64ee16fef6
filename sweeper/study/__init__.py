"""A question, as boxes of axes."""
