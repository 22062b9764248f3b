"""Bounds the ε of one person with several devices in one batch."""

from __future__ import annotations

import math

from hubbub.accountant.arithmetic_errors import answering
from hubbub.accountant.brackets import EpsilonBracket
from hubbub.accountant.composition import compose, one_round_delta
from hubbub.accountant.mechanisms import LocalMechanism
from hubbub.accountant.numbers import checked_delta, checked_dummies, checked_reports, checked_whole
from hubbub.accountant.pairs import Part, without_noise

SPLIT = (
    "several devices: each hidden among its own (n − g)/g others (dropping people never lowers a divergence, "
    "balle-2019 Lemma A.2), composed g-fold"
)
CHAIN = "several devices: group privacy, (gε, δ(e^{gε} − 1)/(e^ε − 1)) from (ε, δ) of one device"


@answering
def group_epsilon(
    mechanism: LocalMechanism, reports: int, devices: int, delta: float, dummies: int = 0
) -> EpsilonBracket:
    """Return ε at `delta` for a person who sends `devices` of the batch's `reports`; never below the truth.

    The smaller of two bounds: g-fold composition of one device among ⌊(n−g)/g⌋ others (and ⌊dummies/g⌋ dummies), and
    group privacy. Noise of the shuffler is drawn once for all of a person's reports, so its pair is not composed: there
    the first bound is that of the people alone. Raises AccountingError for numbers out of range.
    """
    reports, dummies = checked_reports(reports), checked_dummies(dummies)
    devices = checked_whole("devices", devices, 1, reports)
    wanted = checked_delta(delta)
    # The g reports change one after the other, each hidden among its own share of the others, so they compose.
    others = (reports - devices) // devices
    part = Part(mechanism, others + 1, rounds=devices, dummies=dummies // devices)
    split = compose([part if devices == 1 else without_noise(part)], wanted)
    if devices == 1:
        return split
    chained = _chained(Part(mechanism, reports, dummies=dummies), devices, wanted)
    upper = min(split.epsilon_upper, chained)
    if upper == split.epsilon_local:
        return EpsilonBracket(upper, None, split.epsilon_local, delta, "local", split.source, 0.0)
    source = SPLIT if upper == split.epsilon_upper else CHAIN
    return EpsilonBracket(upper, None, split.epsilon_local, delta, "devices", source, split.numerical_slack)


def _chained(part: Part, devices: int, delta: float) -> float:
    """Return g·ε for the smallest ε found with δ(ε)(e^{gε} − 1)/(e^ε − 1) ≤ δ, checked, else g·ε_local."""
    curve = one_round_delta(part, delta)
    # At the local ε δ is 0, so `high` is valid from the start, and only `high` is returned.
    low, high = 0.0, part.mechanism.epsilon_local
    while high - low > 1e-6 * high:
        middle = (low + high) / 2
        if curve(middle) * _growth(middle, devices) <= delta:
            high = middle
        else:
            low = middle
    return devices * high * (1 + 1e-15)


def _growth(epsilon: float, devices: int) -> float:
    """Return (e^{gε} − 1)/(e^ε − 1), rounded up; infinity if it overflows."""
    if devices * epsilon > 700:
        return math.inf
    return math.expm1(devices * epsilon) / math.expm1(epsilon) * (1 + 1e-14) if epsilon > 0 else float(devices)
