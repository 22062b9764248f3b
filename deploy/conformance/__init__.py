"""A shuffler and an analyzer in one process that say at once what is wrong with a client's submissions."""
