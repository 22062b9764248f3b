"""A shuffler of another party behind the first one.

It receives batches as the analyzer does, takes a layer off every envelope, permutes what is inside, signs what went
in and out, and delivers the list to who comes after it. Nothing happens here by itself: a delivery that is tried again
goes on from what is on disk.
"""
