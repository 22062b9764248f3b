"""Durable SQLite: group commit, files, integrity and erasure."""
