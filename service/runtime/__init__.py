"""Event loop, memory, tasks and successions from files."""
