"""TLS authorities, certificates, device tickets and trusted keys."""
