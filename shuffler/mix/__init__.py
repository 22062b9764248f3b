"""Mixes a round's envelopes: in memory, by an external sort, or on Spark."""
