"""The analyzer's store on PostgreSQL: what can be erased is there only enciphered, its keys are in a keyring here."""

from hubbub.analyzer.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
