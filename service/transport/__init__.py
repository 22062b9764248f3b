"""Serves gRPC, HTTPS, health and metrics, with their limits."""
