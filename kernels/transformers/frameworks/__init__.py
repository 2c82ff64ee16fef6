"""What frameworks make of an iteration: the buckets in which they reduce and gather, and how the host launches."""
