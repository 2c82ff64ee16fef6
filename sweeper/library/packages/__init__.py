"""Package designs: their tables, and how they are read."""
