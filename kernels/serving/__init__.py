"""Servers under load: which request runs when, over the times of passes that the models give."""
