"""What one would say of a measured row without a model of it: its operations and bytes, and one share of the peak."""
