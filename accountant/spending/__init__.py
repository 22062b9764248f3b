"""Keeps the ledger of a task's spending over its rounds, and compares it with the task's budget."""
