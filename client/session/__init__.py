"""The steps of a submission: trust in the task, choice of the round, send time, sealing and outcome."""
