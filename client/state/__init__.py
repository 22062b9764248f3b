"""The SQLite file in which a device keeps what must survive a crash, a module a table."""
