"""Local randomizers, each with its exact law, and the counting of their reports."""
