"""Views: results, standings and privacy, shaped once for tables, JSON, CSV and Parquet."""
