"""Keeps the ledger of each task's budget, and checks its chain of releases."""
