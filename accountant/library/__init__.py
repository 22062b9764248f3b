"""Accounting that hubbub's services do not use, for others: one person's devices, secret subsets, other tools."""
