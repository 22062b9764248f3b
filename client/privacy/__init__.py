"""The device's own privacy ledger, its budget report, and the central ε that it reads from certificates."""
