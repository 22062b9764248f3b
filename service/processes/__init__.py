"""Starts worker processes, and protects the memory of every process."""
