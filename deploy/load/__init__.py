"""Loads a deployment with made-up devices at a given rate, and measures latencies and refusals."""
