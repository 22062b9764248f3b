"""The question for texts that the task does not list: looked up from candidates, or found by prefixes over rounds."""
