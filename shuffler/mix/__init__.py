"""In memory, by an external sort, or on Spark."""
