"""Debiasing, confidence bands and tests."""
