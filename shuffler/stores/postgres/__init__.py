"""The store on PostgreSQL: erasable data is encrypted there, under keys in a local keyring."""

from hubbub.shuffler.stores.postgres.store import ShufflerPostgresStore

__all__ = ["ShufflerPostgresStore"]
