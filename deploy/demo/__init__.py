"""Runs a whole deployment on this machine, with real data."""
