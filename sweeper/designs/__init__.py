"""One package or chip on its own."""
