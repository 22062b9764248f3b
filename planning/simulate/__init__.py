"""Runs a task on a table of data without a network, and compares randomizers."""
