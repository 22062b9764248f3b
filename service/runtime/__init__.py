"""What a service process starts with: event loop, memory, tasks and successions from files."""
