"""Worker processes, and what every process does first to protect its memory."""
