"""A task: its draft, its signed form, its schedule and who may take part."""
