"""Runs services: event loop, memory limits, and task and succession files."""
