"""Keeps a transparency log in a folder, serves it, and witnesses the logs of others."""
