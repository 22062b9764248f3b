"""What can be erased is there only enciphered, its keys are in a keyring here."""

from hubbub.analyzer.postgres.store import AnalyzerPostgresStore

__all__ = ["AnalyzerPostgresStore"]
