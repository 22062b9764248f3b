"""Acceptors: processes that answer devices, one a core, for the one process that keeps the rounds."""
