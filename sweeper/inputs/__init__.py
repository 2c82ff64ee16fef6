"""What a box of a study gives to the equations: numbers, choices, and the arrays of workloads and packages."""
