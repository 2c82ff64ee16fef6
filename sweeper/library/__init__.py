"""Named things of the library, and what they mean."""
