"""The store on PostgreSQL: erasable data is encrypted there, under keys in a local keyring."""

from hubbub.analyzer.stores.postgres.store import AnalyzerPostgresStore

__all__ = ["AnalyzerPostgresStore"]
