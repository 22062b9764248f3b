"""Group commit, files, integrity and erasure."""
