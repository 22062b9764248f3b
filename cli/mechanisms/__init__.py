"""Mechanisms and laws as people type them."""
