"""Proofs of one-round bounds by summation in ball arithmetic, a route of its own beside `accountant.divergence`.

Every number is a *ball* of python-flint (Arb): a midpoint and a radius that surely hold the truth, whatever was
rounded. A comparison is true only where the balls decide it; what they leave open is not proven.
"""
