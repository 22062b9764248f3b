"""Status, results, export and health."""
