"""Defines a transparency log: its keys, checkpoints, proofs, entries, and the folder of files that it is read from."""
