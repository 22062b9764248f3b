"""Leadership in PostgreSQL, and the replication of the keyring to standbys and front ends."""
