"""Suites of algorithms, and the envelopes that devices seal."""
