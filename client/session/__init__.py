"""The way of one submission: trust, round, send time, sealing, outcome."""
