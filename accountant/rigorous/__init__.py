"""Proves certified numbers by summation in ball arithmetic, independently of `accountant.divergence`.

Every number is a *ball* of python-flint (Arb): a midpoint and a radius that surely contain the truth in spite of
rounding. A comparison is true only if the balls decide it; otherwise the claim is not proven.
"""
