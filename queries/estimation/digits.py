"""Combines the counts of a number's binary digits into its sum and mean.

Bit j = 1 … b of the rounded number has the weight w_j = 2^(b−j)/(2^b − 1). With ô_j the debiased number of ones,
T̂ = Σ_j w_j·ô_j is unbiased for the sum of the numbers scaled to [0, 1], because rounding is. Given the rounded numbers,
the bits' reports and their noise are independent, so

    Var T̂ = Σ_j w_j²·Var ô_j + Σ_i ρ_i,   ρ_i ≤ 1/(4·(2^b − 1)²) the variance of rounding person i's number once.

Rounding is one draw for all bits, and its variance that of the whole step: bits that were rounded one by one would have
a variance as large as their weights.

The interval is near, as that of any sum of many reports (`bands.near_half_width`): T̂ is a sum of independent terms,
each a report of one bit or the noise of one. One random choice moves it by at most the largest w_j over bit j's gap.

A report that was left out, as it could not be opened, leaves its bit at 0. So n is the largest number of reports of a
bit, and a person whose other bits are there still moves the sum by no more than the range.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from hubbub.queries.estimation.bands import near_interval, with_bands
from hubbub.queries.estimation.debiased import Debiased
from hubbub.queries.estimation.estimates import Estimate, Estimates, Row
from hubbub.queries.questions.number import Number


def combined(question: Number, bits: Sequence[Debiased]) -> Estimates:
    """Return the sum and the mean of a number from the batches of all its digits, the most significant one first.

    Raises:
        ValueError: if a batch is missing, or one is too many.
    """
    if len(bits) != question.digits:
        raise ValueError(
            f"{question.name} has {question.digits} digits, but {len(bits)} batches are given; give one each"
        )
    people = [bit.reports for bit in bits]
    number, steps, width = max(people), 2 ** len(bits) - 1, question.width
    total = spread = reach = 0.0
    for place, bit in enumerate(reversed(bits)):
        weights, weight = np.array([0.0, 1.0]), 2**place / steps
        total += weight * bit.total(weights)
        spread += weight**2 * bit.variance(weights)
        reach = max(reach, weight * bit.reach(weights))
    error = math.sqrt(spread + number / (4 * steps**2))
    value, within = question.lower * number + width * total, (question.lower * number, question.upper * number)
    found = Estimate.of(value, error * width, partial(near_interval, value, error * width, reach * width, within))
    rows = (
        Row("answered", Estimate.known(float(number))),
        Row("sum", found, unit=question.unit),
        Row("mean", found.mapped(0.0, 1 / number) if number else None, unit=question.unit),
    )
    span = (question.lower, question.upper)
    return with_bands(Estimates(question.kind, rows, question.unit, span, _notes(people)))


def _notes(people: Sequence[int]) -> tuple[str, ...]:
    """Return a sentence if bits have different numbers of reports."""
    least, most = min(people), max(people)
    if least == most:
        return ()
    return (f"the digits have from {least} to {most} reports; a report that was left out counts as a digit 0",)
