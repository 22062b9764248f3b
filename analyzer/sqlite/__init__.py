"""The analyzer's store in one SQLite file: no server to install, and what was answered is synced to disk."""

from hubbub.analyzer.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
