"""Receives batches, for the analyzer and for hops."""
