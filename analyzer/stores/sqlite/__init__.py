"""The store on SQLite: it needs no server, and what it acknowledged is synced to disk."""

from hubbub.analyzer.stores.sqlite.store import AnalyzerSqliteStore

__all__ = ["AnalyzerSqliteStore"]
