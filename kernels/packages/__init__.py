"""Packages of dies: geometry, yield, assembly, cost and carbon."""
