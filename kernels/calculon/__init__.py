"""Blocks evaluated as Calculon does."""
