"""Debiases counts, and computes confidence bands and significance tests."""
