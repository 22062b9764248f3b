"""The store on SQLite: it needs no server, and what it acknowledged is synced to disk."""

from hubbub.shuffler.stores.sqlite.store import ShufflerSqliteStore

__all__ = ["ShufflerSqliteStore"]
