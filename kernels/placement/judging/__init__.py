"""Placements judged before they are simulated, by rules, schedules, networks and trees; searches that ask them."""
