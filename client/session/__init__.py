"""Trust, round, send time, sealing, outcome."""
