"""What stores on PostgreSQL have in common: sessions, migrations, sealing, the keyring's file, ledger and releases."""
