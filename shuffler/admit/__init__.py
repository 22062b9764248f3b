"""Ports, limits, decryption and the checks that each submission passes."""
