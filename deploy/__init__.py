"""The command line, the local pipeline, sample settings, key making."""
