"""Random faults on a real study, round after round: `make chaos`."""
