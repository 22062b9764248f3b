"""Accepts batches, opens and counts them, estimates and certifies. It learns answers, not who gave them."""
