"""Signed documents, the keys that sign them, and how keys succeed each other."""
