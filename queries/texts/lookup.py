"""Looks up which of many candidate texts people have, in a batch's table of reported cells.

A candidate stands out if its count is larger than chance explains for a text that nobody has. The probability of such a
count is bounded from the table itself (`hashed_noise.Noise`), which includes every common text, looked for or not. (The
normal law would promise too much: with 15 reports to a cell its tail at five deviations is thirty times too small.)
Benjamini and Yekutieli's procedure on these bounds keeps the expected share of false discoveries at most
`FALSE_DISCOVERIES`, however the counts depend on each other.

If no text is common, the reports of other people in a text's cells are a sum of independent parts of at most 1, with
variance V. Then that bound is about Bennett's inequality,

    P[N ≥ μ + t] ≤ exp(−V·h(t/V)),   h(u) = (1+u)·ln(1+u) − u,

which planning uses (`stands_out_from`).

Noise of the shuffler is in the table, so the bound from the table includes it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Protocol, runtime_checkable

import numpy as np

from hubbub.queries.estimation.bands import in_band, rate_of
from hubbub.queries.estimation.debiased import Debiased
from hubbub.queries.estimation.estimates import BEGINNING, Estimate, Estimates, Row
from hubbub.queries.randomizers.hashed import HashedResponse
from hubbub.queries.randomizers.hashed_cells import packed as packed
from hubbub.queries.randomizers.hashed_cells import unpacked as unpacked
from hubbub.queries.randomizers.hashed_decoding import SEARCHES, WRONGLY_EXPLAINED, Decoded, decode
from hubbub.queries.randomizers.hashed_noise import TILTS
from hubbub.queries.texts.prefixes import Prefix

if TYPE_CHECKING:
    from hubbub.queries.questions.question import Value
    from hubbub.queries.randomizers.hashed_decoding import Symbols
    from hubbub.queries.randomizers.randomizer import Vector

FALSE_DISCOVERIES = 0.05
"""Expected share of texts that nobody has, among those reported to stand out."""

DISCOVERY_RATE = FALSE_DISCOVERIES - SEARCHES * WRONGLY_EXPLAINED
"""That of the procedure: the rest is the chance that a text that nobody has explained reports of others."""

MOST_CANDIDATES = 10_000_000
"""Most candidates of one lookup: about a minute, and a gigabyte for their texts."""


@runtime_checkable
class Decodable(Protocol):
    """A question whose answers the task does not list: candidates are decoded from the published table."""

    def decode(self, debiased: Debiased, candidates: Sequence[str], number: int = 0) -> Estimates:
        """Return the counts of the candidates that stand out of the table of round `number`.

        Raises:
            AnswerError: if a candidate cannot be an answer.
        """


class OfTexts(Protocol):
    """The members of `text.Text` that a look-up needs."""

    kind: ClassVar[str]

    @property
    def optional(self) -> bool:
        """Whether a device may give no answer."""

    @property
    def answers(self) -> int:
        """How many symbols encode answers; the next one is "no answer"."""

    def said(self, answer: Value, number: int) -> Prefix:
        """Return the part of an answer that round `number` asks for."""

    def symbol(self, said: Prefix, number: int) -> int:
        """Return the symbol of a beginning, or a text, in round `number`."""


def answered(question: OfTexts, debiased: Debiased) -> Estimate:
    """Return how many answered: everybody, except "no answer" if the question is optional."""
    if not question.optional:
        return Estimate.known(float(debiased.reports))
    decoded = _decoded(debiased, np.array([question.answers], dtype=np.uint64))
    silent = float(decoded.counts[0])
    return count_of_text(debiased, debiased.reports - silent, float(decoded.variances[0]))


def count_of_text(debiased: Debiased, value: float, variance: float) -> Estimate:
    """Return a decoded count with near intervals: counts from hashes have no exact law."""
    return debiased.near(value, variance, np.ones(1), within=(0.0, float(debiased.reports)))


def look_up(question: OfTexts, debiased: Debiased, candidates: Sequence[str], number: int) -> Estimates:
    """Return the candidates that stand out, largest first; see `Text.decode`."""
    said = list(dict.fromkeys(question.said(text, number) for text in candidates))
    symbols = np.fromiter((question.symbol(each, number) for each in said), dtype=np.uint64, count=len(said))
    found = standing_out(question, debiased, symbols)
    rows = [row_of(said[place], estimate, number) for place, estimate in found]
    everybody = Row("answered", in_band(answered(question, debiased), rate_of(len(said) + 1)))
    return Estimates(question.kind, (*rows, everybody), notes=(found_words(len(rows), len(said)),))


def row_of(said: Prefix, estimate: Estimate, number: int) -> Row:
    """Return the row of a text, or of a beginning that was counted in round `number`."""
    return Row("count", estimate, said.label) if said.ended else Row(BEGINNING, estimate, said.label, at=number)


def standing_out(question: OfTexts, debiased: Debiased, symbols: Symbols) -> list[tuple[int, Estimate]]:
    """Return the indices of the distinct symbols that stand out, and their counts; the largest first.

    Those that stand out are decoded again without the others, until all of them do. So their counts follow from the
    table and from them alone: who checks the counts need not know what else was looked up.

    Each has the interval of a band over all look-ups and the number who answered. So the intervals of the returned ones
    are valid, although these were selected by their counts.
    """
    # "No answer" is decoded with them, because as a common symbol it would be noise for the others.
    silent = np.array([question.answers] if question.optional else [], dtype=np.uint64)
    # In the order of symbols, so that sums are rounded alike whatever order candidates have.
    places, rate = np.argsort(symbols), rate_of(len(symbols) + 1)
    while len(places):
        decoded = _decoded(debiased, np.concatenate([symbols[places], silent]))
        counts, logs = decoded.counts[: len(places)], decoded.log_chances[: len(places)]
        found = _discoveries(counts, logs)
        if len(found) == len(places):
            values = zip(counts[found].tolist(), decoded.variances[found].tolist(), strict=True)
            estimates = [in_band(count_of_text(debiased, *each), rate) for each in values]
            return list(zip(places[found].tolist(), estimates, strict=True))
        places = places[np.sort(found)]
    return []


def stands_out_from(spread: float, looked_up: int, moments: Vector | None = None) -> float:
    """Return how many reports above the mean make one of so many look-ups stand out alone.

    `spread` is V, the variance of the reports in the cells of a text that nobody has. The result is the root t of
    V·h(t/V) = ln(m·H_m/q): a single discovery must have this smallest p-value of Benjamini and Yekutieli's procedure.
    If other look-ups stand out too, less is enough. With noise of the shufflers, which is not part of `spread`, the
    result is the least t for which Chernoff's bound is as small (`significance.bounded_p_values`). Then `moments` are
    those that the noise adds (`hashed_noise.added_moments`).
    """
    needed = math.log(looked_up * float((1 / np.arange(1, looked_up + 1)).sum()) / DISCOVERY_RATE)
    if moments is not None:
        exponents = spread * (np.expm1(TILTS) - TILTS) + moments
        return float(((needed + exponents) / TILTS).min())
    low, high = 0.0, 1.0
    while spread * _bennett(high) < needed:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if spread * _bennett(middle) >= needed else (middle, high)
    return spread * high


def _bennett(over: float) -> float:
    return (1 + over) * math.log1p(over) - over


def found_words(found: int, candidates: int) -> str:
    """Return a sentence: how many of the candidates stand out."""
    chance = f"on average at most {100 * FALSE_DISCOVERIES:g} % of those listed are there by chance alone"
    if not found:
        return f"of {candidates:,} looked up, none is listed: {chance}"
    return f"of {candidates:,} looked up, {found:,} {'is' if found == 1 else 'are'} listed: {chance}"


def _decoded(debiased: Debiased, symbols: np.ndarray) -> Decoded:
    return decode(_hashed(debiased), debiased.tally, debiased.dummies, symbols, debiased.noise)


def _hashed(debiased: Debiased) -> HashedResponse:
    randomizer = debiased.randomizer
    if not isinstance(randomizer, HashedResponse):
        raise TypeError(f"a text is decoded from hashed reports, not from those of {randomizer.kind}")
    return randomizer


def _discoveries(counts: Vector, logs: Vector) -> np.ndarray:
    """Return the indices of those that stand out by Benjamini and Yekutieli's procedure, the largest count first.

    The procedure is valid under any dependence of the counts; candidates share cells of the table. `logs` are
    logarithms of bounds on the probability that a text that nobody has gets as large a count.
    """
    order = np.argsort(logs, kind="stable")
    # The i-th smallest of m passes if it is at most i/m times the rate over 1 + 1/2 + … + 1/m. All up to the last that
    # passes are discoveries.
    places = np.arange(1, len(order) + 1)
    allowed = np.log(DISCOVERY_RATE * places / max(len(order), 1) / max(float((1 / places).sum()), 1.0))
    within = np.flatnonzero(logs[order] <= allowed)
    found = order[: within[-1] + 1] if len(within) else order[:0]
    return found[np.argsort(-counts[found], kind="stable")]
