"""An operator's calls to running services: status, results, export and health."""
