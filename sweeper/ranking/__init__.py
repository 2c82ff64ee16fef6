"""Cost models that rank placements: rules, trees of decisions and networks, learned from labels, compared and kept."""
