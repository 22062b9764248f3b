"""Sessions, migrations, sealing, the keyring's file, ledger and releases."""
