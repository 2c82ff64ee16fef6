"""Text becomes nodes, quantities and expressions, with file and line."""
