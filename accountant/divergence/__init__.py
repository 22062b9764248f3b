"""The hockey-stick divergence of one round, from both sides: sums of i.i.d. draws, and shifted binomials."""
