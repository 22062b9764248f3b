"""Queries: what can be asked and how answers are randomized, one value per question and one per randomizer."""
