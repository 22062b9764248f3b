"""The life of a round, from its keys to its erasure, and what its operator can ask for."""
