"""Accepts batches, opens and counts them, estimates, certifies. It learns what, not who."""
