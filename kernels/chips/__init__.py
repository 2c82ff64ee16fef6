"""Chips generated from a template, a technology and budgets."""
