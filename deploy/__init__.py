"""Sets up, runs, rehearses and audits deployments: local pipeline, sample settings, keys and the operator's calls."""
