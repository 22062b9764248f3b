"""What tasks have spent, and the chain of releases."""
