"""What the shuffler keeps on disk: the protocol in `protocol.py`, and a folder for each implementation."""
