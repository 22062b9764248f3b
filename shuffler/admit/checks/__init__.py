"""What a submission must pass before its envelope is opened, a module a check, in the order of `registry`."""
