"""The name of the shuffler's schema in a database, and the package with its migrations."""

from hubbub.service.postgres.schema import Schema

SCHEMA = Schema("hubbub_shuffler", "hubbub.shuffler.stores.postgres")
