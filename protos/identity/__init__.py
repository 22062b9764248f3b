"""Defines signed documents, the keys that sign them, and the succession of keys."""
