"""Finds, for a privacy target, the randomizer with the least error that meets it."""
