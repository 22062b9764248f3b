"""The device's own privacy ledger, its limits, and what certificates tell it."""
