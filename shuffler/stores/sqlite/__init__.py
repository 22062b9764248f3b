"""No server to install, and what was acknowledged is synced to disk."""

from hubbub.shuffler.stores.sqlite.store import ShufflerSqliteStore

__all__ = ["ShufflerSqliteStore"]
