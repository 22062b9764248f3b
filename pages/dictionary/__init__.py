"""The dictionary: a page for people about each signed task, as static files that an organization publishes."""
