"""What is refused of a study before it runs: objectives that nobody can know, values that nothing reads."""
