"""Every name that a spec may use, with unit and meaning: data only."""
