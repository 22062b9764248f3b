"""The protocol in `protocol.py`, and a folder for each implementation."""
