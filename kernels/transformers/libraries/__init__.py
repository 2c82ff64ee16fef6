"""What communication libraries make of a collective: which algorithm and which protocol they choose, and its time."""
