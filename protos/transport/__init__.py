"""Addresses, TLS files and channels."""
