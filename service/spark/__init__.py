"""Large batches on a cluster's cores, and the session that a job runs in. Needs the extra `spark`."""
