"""What a round really promises everyone in it, as numbers that anyone can recompute."""
