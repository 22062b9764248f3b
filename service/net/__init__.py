"""A service's ports: gRPC, HTTPS, health and metrics, with their limits."""
