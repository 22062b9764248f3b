"""Computes the hockey-stick divergence of one round from both sides: by i.i.d. sums, and by shifted binomials."""
