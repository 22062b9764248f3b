"""No server to install, and what was answered is synced to disk."""

from hubbub.analyzer.sqlite.store import AnalyzerSqliteStore

__all__ = ["AnalyzerSqliteStore"]
