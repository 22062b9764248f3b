"""Reads and writes the streams of a process: texts, JSON, progress, Ctrl-C."""
