"""Audits a task: plays its worst case against real services, and compares the attacker's gain with the certificate."""
