"""What can be erased is there only enciphered, its keys are in a keyring here."""

from hubbub.shuffler.stores.postgres.store import ShufflerPostgresStore

__all__ = ["ShufflerPostgresStore"]
