"""What several commands take alike, and what they make of it: files of data, numbers, a device, a store."""
