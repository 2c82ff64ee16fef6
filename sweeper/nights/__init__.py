"""Many studies as one: a night that runs all of them, what came of it, and what is kept of earlier nights."""
