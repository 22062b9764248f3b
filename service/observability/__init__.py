"""Logs, metrics and incidents."""
