"""Batch records, the chain of releases, counts and results."""
