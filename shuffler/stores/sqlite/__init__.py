"""The shuffler's store in one SQLite file: no server to install, and what was acknowledged is synced to disk."""

from hubbub.shuffler.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
