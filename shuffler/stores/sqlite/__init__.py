"""The store on SQLite: it needs no server, and whatever was acknowledged is synced to disk."""

from hubbub.shuffler.stores.sqlite.store import ShufflerSqliteStore

__all__ = ["ShufflerSqliteStore"]
