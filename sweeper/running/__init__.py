"""Chunks into files, anywhere: executors, store, locks, progress."""
