"""Defines batch records, the chain of releases, counts and results."""
