"""Local randomizers, each with its exact law, and how reports are counted."""
