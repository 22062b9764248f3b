"""Runs processes that answer devices, one a core, for the main process."""
