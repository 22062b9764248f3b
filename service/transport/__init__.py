"""GRPC, HTTPS, health and metrics, with their limits."""
