"""The life of a round, from its keys to its erasure, and the operator's control of it."""
