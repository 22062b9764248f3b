"""Proves a certificate's numbers for one batch: its local ε, and its (ε, δ) after shuffling."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction

from hubbub.accountant.errors import AccountingError
from hubbub.accountant.mechanisms import LocalMechanism
from hubbub.accountant.numbers import checked_delta, checked_dummies, checked_epsilon, checked_reports
from hubbub.accountant.rigorous.balls import Enclosure, ball, precision, written
from hubbub.accountant.rigorous.proof import NotProvenError, Progress, Proof, quiet
from hubbub.accountant.rigorous.routes import Route, exact_ratio, route_of

LOOSER = (Fraction(1), Fraction(1002, 1000), Fraction(101, 100))
"""If the stated ε stays undecided, these multiples of it are tried; the proof states the one that was proven."""

TERMS = 1_000_000
"""Summands for one multiple of ε, about 15 seconds; the last one may take twice as many."""


def prove_local(mechanisms: tuple[LocalMechanism, ...], epsilon: float) -> Proof:
    """Prove that reports of all `mechanisms` together, one of each, are `epsilon`-private without any shuffling.

    Raises:
        NotProvenError: if e^epsilon is below the product of the likelihood ratios, which are exact, or a mechanism has
            no exact ratio. No mechanism is left out: a proof of the others alone would be false.
    """
    stated = written(checked_local(epsilon))
    with precision(256):
        product = ball(1)
        for mechanism in mechanisms:
            product *= ball(exact_ratio(mechanism))
        # A comparison of balls is true only if it is true for all numbers in them.
        if bool(ball(stated).exp() >= product):
            return Proof(stated, Fraction(0), stated, "local", len(mechanisms))
        refuted = bool(ball(stated).exp() < product)
        raise NotProvenError(
            f"epsilon_local is {epsilon}; it must be at least {product.log().str(8, radius=False)}", refuted
        )


def checked_local(epsilon: float) -> float:
    """Return `epsilon`, a finite number of at least 0; a sum of many local ε may be large."""
    if isinstance(epsilon, bool) or not isinstance(epsilon, int | float) or not 0 <= epsilon < 1e15:
        raise AccountingError(f"epsilon_local is {epsilon!r}; give a finite number of at least 0")
    return float(epsilon)


def prove(
    mechanism: LocalMechanism,
    reports: int,
    epsilon: float,
    delta: float,
    *,
    dummies: int = 0,
    progress: Progress = quiet,
) -> Proof:
    """Prove that one batch of `reports` and `dummies` uniform ones is (`epsilon`, `delta`)-private.

    Both numbers are taken as their written decimals. If `epsilon` stays undecided, up to 1.01 times that is tried.
    Dummies are a post-processing of the batch without them, so a proof for that batch also proves this one.

    Raises:
        NotProvenError: if none of these is decided, the theorem's own δ at `epsilon` surely is above `delta`, or no
            proof is known for the mechanism.
    """
    reports, dummies = checked_reports(reports), checked_dummies(dummies)
    try:
        return _prove(mechanism, reports, epsilon, delta, dummies, progress)
    except NotProvenError:
        if not dummies:
            raise
        with suppress(NotProvenError):
            return _prove(mechanism, reports, epsilon, delta, 0, progress)
        raise


def _prove(
    mechanism: LocalMechanism, reports: int, epsilon: float, delta: float, dummies: int, progress: Progress
) -> Proof:
    stated, target = written(checked_epsilon(epsilon)), written(checked_delta(delta))
    route = route_of(mechanism)
    with precision(256):
        if bool(ball(stated).exp() >= ball(exact_ratio(mechanism))):
            return Proof(stated, target, stated, "local", 1)
    terms, found, multiple = 0, None, LOOSER[0]
    for multiple, found in _attempts(route, reports, stated, target, dummies, progress):
        terms += found.terms
        with precision(256):
            if bool(found.upper <= ball(target)):
                return Proof(stated * multiple, target, stated, route.name, terms)
            # The claim is refuted only if the whole ball is above the target; a ball that covers it decides nothing.
            if bool(found.lower > ball(target)):
                raise NotProvenError(_message(stated * multiple, found, delta), True)
    raise NotProvenError(f"{_message(stated * multiple, found, delta)}; this neither proves nor refutes it", False)


def _attempts(
    route: Route, reports: int, stated: Fraction, target: Fraction, dummies: int, progress: Progress
) -> Iterator[tuple[Fraction, Enclosure]]:
    """Yield (multiple of the stated ε, δ at it), ever finer, then at the next multiple."""
    for multiple in LOOSER:
        # Nothing follows the last multiple, so it gets the rest of the effort.
        limit = TERMS * (2 if multiple == LOOSER[-1] else 1)
        epsilon = stated * multiple
        for found in route.attempts(reports, epsilon, target, dummies, limit, progress):
            yield multiple, found


def _message(epsilon: Fraction, found: Enclosure | None, delta: float) -> str:
    between = "unknown"
    if found is not None:
        low, high = found.lower.lower().str(8, radius=False), found.upper.upper().str(8, radius=False)
        between = f"between {low} and {high}"
    return f"at epsilon = {float(epsilon):.8g} delta is {between}, but {delta:g} is stated"
