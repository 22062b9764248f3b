"""Ports for devices, limits, decryption, and the checks that each submission passes."""
