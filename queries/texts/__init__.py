"""Questions whose answers no list names: texts, looked up or found by prefixes."""
