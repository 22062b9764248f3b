"""The law of one round's pair on few points, laid on a grid, and convolved over rounds."""
