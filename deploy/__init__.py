"""Ways to run the whole: the command line, the local pipeline, sample settings, key making."""
