"""Proofs of what a certificate says about one batch: its local ε, and its (ε, δ) after shuffling."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from hubbub.accountant.errors import AccountingError, OutsideConditions
from hubbub.accountant.mechanisms import KRR, Mechanism
from hubbub.accountant.numbers import checked_delta, checked_dummies, checked_epsilon, checked_reports
from hubbub.accountant.rigorous.balls import Enclosure, ball, precision, written
from hubbub.accountant.rigorous.blanket import blanket_delta
from hubbub.accountant.rigorous.two_rr import Effort, two_rr_delta

LOOSER = (Fraction(1), Fraction(1002, 1000), Fraction(101, 100))
"""Where the ε stated stays undecided, these multiples of it are tried; what is proven says which one."""

TERMS = 1_000_000
"""Summands for one multiple of ε, about 15 seconds; the last one may take twice as many."""

_NODES = (8, 32, 128, 512, 2048)
"""Nodes for the number of blankets, or bins of it where there are dummies."""

Progress = Callable[[str], None]
"""Told in a few words what is tried."""


class NotProvenError(AccountingError):
    """A stated number that the balls do not confirm; `refuted` where they exclude it."""

    def __init__(self, message: str, refuted: bool) -> None:
        super().__init__(message)
        self.refuted = refuted


@dataclass(frozen=True)
class Proof:
    """δ(`epsilon`) ≤ `delta` is proven, both exact; `route` names the theorem that was summed.

    `epsilon` is the one stated, or at most 1.01 times that. `terms` summands were looked at.
    """

    epsilon: Fraction
    delta: Fraction
    stated: Fraction
    route: str
    terms: int

    @property
    def looser(self) -> float:
        """How much larger the proven ε is than the stated one, relatively; 0.0 where it is the same."""
        return float(self.epsilon / self.stated - 1) if self.stated else 0.0


def quiet(_: str) -> None:
    """No progress."""


def prove_local(mechanisms: tuple[KRR, ...], epsilon: float) -> Proof:
    """Prove that reports of all `mechanisms` together, one of each, are `epsilon`-private without any shuffling.

    Raises:
        NotProvenError: where e^epsilon is below the product of the likelihood ratios, which are exact.
    """
    stated = written(checked_local(epsilon))
    with precision(256):
        product = ball(1)
        for mechanism in mechanisms:
            product *= ball(mechanism.likelihood_ratio)
        if bool(ball(stated).exp() >= product):
            return Proof(stated, Fraction(0), stated, "local", len(mechanisms))
        refuted = bool(ball(stated).exp() < product)
        raise NotProvenError(f"epsilon_local = {epsilon} is below {product.log().str(8, radius=False)}", refuted)


def checked_local(epsilon: float) -> float:
    """`epsilon` as a finite number of at least 0; a sum of many local ε may be large."""
    if isinstance(epsilon, bool) or not isinstance(epsilon, int | float) or not 0 <= epsilon < 1e15:
        raise AccountingError(f"epsilon_local is {epsilon!r}, must be a finite number of at least 0")
    return float(epsilon)


def prove(
    mechanism: Mechanism, reports: int, epsilon: float, delta: float, *, dummies: int = 0, progress: Progress = quiet
) -> Proof:
    """Prove that one batch of `reports`, with `dummies` uniform ones beside them, is (`epsilon`, `delta`)-private.

    Both numbers are taken as the decimals they are written as. Where `epsilon` stays undecided, up to 1.01 times that
    is tried.

    Raises:
        NotProvenError: where nothing of that is decided, or the theorem's own δ at `epsilon` surely is above `delta`.
        OutsideConditions: for anything but kRR.
    """
    reports, dummies = checked_reports(reports), checked_dummies(dummies)
    stated, target = written(checked_epsilon(epsilon)), written(checked_delta(delta))
    if not isinstance(mechanism, KRR):
        raise OutsideConditions(f"mechanism is {mechanism!r}, must be kRR: no other is certified")
    with precision(256):
        if bool(ball(stated).exp() >= ball(mechanism.likelihood_ratio)):
            return Proof(stated, target, stated, "local", 1)
    terms, found, multiple = 0, None, LOOSER[0]
    for multiple, found in _attempts(mechanism, reports, stated, target, dummies, progress):
        terms += found.terms
        with precision(256):
            if bool(found.upper <= ball(target)):
                return Proof(stated * multiple, target, stated, _route(mechanism), terms)
            if bool(found.lower > ball(target)):
                raise NotProvenError(_message(stated * multiple, found, delta), True)
    raise NotProvenError(f"{_message(stated * multiple, found, delta)}; that decides nothing", False)


def _route(mechanism: KRR) -> str:
    return "2rr" if mechanism.categories == 2 else "blanket"


def _attempts(
    mechanism: KRR, reports: int, stated: Fraction, target: Fraction, dummies: int, progress: Progress
) -> Iterator[tuple[Fraction, Enclosure]]:
    """Yield (multiple of the ε stated, δ there), ever finer, then at the next multiple."""
    for multiple in LOOSER:
        limit = TERMS * (2 if multiple == LOOSER[-1] else 1)
        epsilon = stated * multiple
        where = f"{_route(mechanism)} at epsilon {float(epsilon):.8g}"
        if mechanism.categories == 2:
            progress(where)
            yield multiple, two_rr_delta(mechanism, reports, epsilon, target, Effort(limit), dummies)
            continue
        for nodes in _NODES:
            progress(f"{where}, {nodes} nodes")
            found = blanket_delta(mechanism, reports, epsilon, target, nodes, dummies)
            yield multiple, found
            if found.terms * 4 > limit:
                break


def _message(epsilon: Fraction, found: Enclosure | None, delta: float) -> str:
    between = "unknown"
    if found is not None:
        low, high = found.lower.lower().str(8, radius=False), found.upper.upper().str(8, radius=False)
        between = f"between {low} and {high}"
    return f"at epsilon = {float(epsilon):.8g} delta is {between}, {delta:g} is stated"
