"""Defines a task: its draft, its signed form, its schedule and its admission."""
