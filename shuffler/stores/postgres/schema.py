"""Where the shuffler's store is in a database, and what makes its tables."""

from hubbub.service.postgres.schema import Schema

SCHEMA = Schema("hubbub_shuffler", "hubbub.shuffler.stores.postgres")
