"""Delivers a mixed round to the next party."""
