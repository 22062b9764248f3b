"""Defines the suites of algorithms, and the envelopes that devices seal."""
