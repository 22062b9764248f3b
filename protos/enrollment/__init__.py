"""Defines the tickets that enroll devices, and the credentials that devices get for them."""
