"""Takes in batches, for the analyzer and for hops."""
