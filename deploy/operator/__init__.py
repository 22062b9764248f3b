"""Makes the operator's calls: status, results, export and health."""
