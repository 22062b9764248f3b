"""Plans a question about what changes: what each strategy costs, and its errors."""
