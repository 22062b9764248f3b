"""Texts, looked up or found by prefixes."""
