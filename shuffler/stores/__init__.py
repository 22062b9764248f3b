"""The stores of a shuffler: the protocol in `protocol.py`, and a folder for each implementation."""
