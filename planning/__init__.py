"""Randomizers, capacity, and what floods would do."""
