"""Measurements, scoreboard, calibration, claims."""
