"""The report: one file about a round or a whole task, to hand on to people who were not there."""
