"""Accounting for other programs, unused by hubbub's services: one person's devices, secret subsets, other tools."""
