"""Permutes a round: in memory, by an external sort, or on Spark."""
