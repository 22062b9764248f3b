"""Defines messages, tasks, keys, envelopes and the typed calls of services."""
