"""The shapes in which results, rounds' states and privacy are shown, as tables, JSON, CSV and Parquet."""
