"""Runs a hop: a shuffler of another party, behind the first one.

It receives batches as the analyzer does, removes a layer from every envelope and permutes the contents. It signs a
record of what it received and released, and delivers the list to the next party. It starts no work by itself: a
repeated delivery resumes from the disk.
"""
