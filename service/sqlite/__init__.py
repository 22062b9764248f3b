"""Stores data in SQLite: group commit, files, integrity and erasure."""
