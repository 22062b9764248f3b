"""Compares what a question may be answered with, on a file's own columns: `hubbub simulate --compare`, `--changes`."""
