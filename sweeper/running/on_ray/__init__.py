"""Chunks on Ray. What touches Ray lives in a process of its own, so that nothing that befalls Ray befalls the run."""
