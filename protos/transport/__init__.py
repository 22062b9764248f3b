"""Defines addresses, TLS files and channels."""
