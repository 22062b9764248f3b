"""Stores data in PostgreSQL: sessions, migrations, sealing, the keyring's file, ledger and releases."""
