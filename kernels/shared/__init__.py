"""Physics that all families share: chips, networks, prices, energy, ownership."""
