"""Opens large batches on a Spark cluster, in one session for each job. Needs the extra `spark`."""
