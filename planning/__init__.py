"""What is decided before anyone is asked: randomizers, capacity, and what floods would do."""
