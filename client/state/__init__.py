"""The SQLite file with the data of a device that must survive a crash; each module has its tables."""
