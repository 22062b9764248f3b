"""The shuffler's store on PostgreSQL: what can be erased is there only enciphered, its keys are in a keyring here."""

from hubbub.shuffler.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
