"""What services state of a round: batch records, the chain of releases, counts and results."""
