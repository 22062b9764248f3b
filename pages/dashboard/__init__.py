"""The dashboard: pages of results, certificates, services and plans, for one person's browser on this machine."""
