"""The stores of an analyzer: the protocol in `protocol.py`, and a folder for each implementation."""
