"""Shows results, rounds' states and privacy as tables and as JSON."""
