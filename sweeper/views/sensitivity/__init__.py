"""The answer of a sensitivity: what it is, as text, and as a picture."""
