"""What can be asked of a device, one question a module."""
