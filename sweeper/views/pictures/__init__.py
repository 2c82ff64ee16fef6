"""Pictures of a dataset."""
