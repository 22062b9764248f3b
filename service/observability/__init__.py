"""Reports the state of a service: logs, metrics and incidents."""
