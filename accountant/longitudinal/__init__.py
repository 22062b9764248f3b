"""Chooses noise for questions about a boolean that changes over time, and gives the paper's bound on the error."""
