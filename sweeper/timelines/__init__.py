"""A training step played out: what every stage of the pipeline does when, operator by operator."""
