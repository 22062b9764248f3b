"""Makes and rotates keys: TLS authorities, certificates, device tickets and trusted keys."""
