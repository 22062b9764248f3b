"""Computes the privacy losses of one round's pair on few points, puts them on a grid, and convolves rounds."""
