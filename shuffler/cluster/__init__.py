"""Leadership and failover of a shuffler on a database, and its front ends."""
