"""Lookup: which of many candidate texts people hold, from a batch's table of reported cells.

A candidate stands out where its count is larger than chance makes those of texts that nobody holds. For these, the
number of reports in its cells has a known mean μ and variance at most V (`decoding.Decoded.spread`: that of its own
cells, since the hash functions are known), and is a sum of independent parts of at most 1, so that by Bennett's
inequality

    P[N ≥ μ + t] ≤ exp(−V·h(t/V)),   h(u) = (1+u)·ln(1+u) − u.

(The normal law would promise too much: with 15 reports to a cell its tail at five deviations is thirty times too
small.) Benjamini and Yekutieli's procedure on these bounds keeps the expected share of false discoveries at most
`FALSE_DISCOVERIES`, however the counts depend on each other.
"""

from __future__ import annotations

import os
import unicodedata
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Protocol, runtime_checkable

import numpy as np

from hubbub.queries.debiased import Debiased
from hubbub.queries.decoding import Cells, Decoded, decode
from hubbub.queries.hashed import HashedResponse
from hubbub.queries.rows import Estimate, Estimates, Row
from hubbub.queries.simultaneous import banded, half_width

if TYPE_CHECKING:
    from hubbub.queries.draws import Random
    from hubbub.queries.question import Value
    from hubbub.queries.randomizer import Tally, Vector

FALSE_DISCOVERIES = 0.05
"""Expected share of texts that nobody holds among those that are said to stand out."""

MOST_CANDIDATES = 10_000_000
"""Most candidates of one lookup: about a minute, and a gigabyte for their texts."""


@runtime_checkable
class Decodable(Protocol):
    """A question whose answers the task does not list: candidates are decoded from what is published."""

    def decode(self, debiased: Debiased, candidates: Sequence[str]) -> Estimates:
        """Return the counts of the candidates that stand out.

        Raises:
            AnswerError: where a candidate cannot be an answer.
        """


class _OfTexts(Protocol):
    """What looking up needs of the question; its members are those of `text.Text`."""

    kind: ClassVar[str]

    @property
    def optional(self) -> bool: ...
    @property
    def answers(self) -> int: ...
    def encode(self, answer: Value, random: Random) -> int: ...


def packed(tally: Tally) -> bytes:
    """Return the cells of a tally as they travel: compressed differences of neighbours, sorted."""
    gaps = np.diff(np.sort(tally.counts), prepend=0).astype("<u4")
    # Bytes of one weight together, so that the high ones, nearly all 0, take no room.
    return zlib.compress(gaps.view(np.uint8).reshape(-1, 4).T.tobytes(), 6)


def unpacked(table: bytes, valid: int) -> Cells:
    """Return the cells that `packed` wrote, one for each valid report.

    Raises:
        ValueError: where the bytes are something else.
    """
    reader = zlib.decompressobj()
    try:
        planes = reader.decompress(table, 4 * valid + 1)
    except zlib.error as error:
        raise ValueError(f"the table of cells is damaged: {error}") from error
    if len(planes) != 4 * valid or not reader.eof or reader.unused_data:
        raise ValueError(f"the table of cells does not hold {valid} of them; is it another round's?")
    gaps = np.ascontiguousarray(np.frombuffer(planes, dtype=np.uint8).reshape(4, -1).T).view("<u4").ravel()
    return Cells(np.cumsum(gaps, dtype=np.int64), valid)


def answered(question: _OfTexts, debiased: Debiased) -> Estimate:
    """Return how many answered: all but those of "no answer", where that is one."""
    if not question.optional:
        return debiased.interval(float(debiased.reports), 0.0)
    decoded = _decoded(debiased, np.array([question.answers], dtype=np.uint64))
    silent = float(decoded.counts[0])
    return debiased.interval(debiased.reports - silent, float(decoded.variances[0]))


def look_up(question: _OfTexts, debiased: Debiased, candidates: Sequence[str]) -> Estimates:
    """Return the candidates that stand out, largest first; see `Text.decode`."""
    texts = list(dict.fromkeys(unicodedata.normalize("NFC", text) for text in candidates))
    symbols = np.fromiter((question.encode(text, os.urandom) for text in texts), dtype=np.uint64, count=len(texts))
    # "No answer" is decoded with them: as a common symbol it would be noise for the others.
    silent = np.array([question.answers] if question.optional else [], dtype=np.uint64)
    decoded = _decoded(debiased, np.concatenate([symbols, silent]))
    counts, variances = decoded.counts, decoded.variances
    excess, spread = counts[: len(texts)] * debiased.randomizer.keep, decoded.spread[: len(texts)]
    rows = [
        Row("count", debiased.interval(float(counts[place]), float(variances[place])), texts[place])
        for place in _standing_out(excess, spread).tolist()
    ]
    everybody = Row("answered", answered(question, debiased))
    # A band over all that were looked up holds of those that are shown, although these were chosen by their counts.
    width = half_width(len(texts) + 1)
    shown = tuple(banded(row, width) for row in (*rows, everybody))
    return Estimates(question.kind, shown, notes=(_found(len(rows), len(texts)),))


def _found(found: int, candidates: int) -> str:
    rate = f"false-discovery rate {FALSE_DISCOVERIES:.0%}"
    if not found:
        return f"none of the {candidates} candidates stands out of the noise ({rate})"
    return (
        f"{found} of {candidates} candidates stand out of the noise ({rate}); the band over all looked up holds of them"
    )


def _decoded(debiased: Debiased, symbols: np.ndarray) -> Decoded:
    return decode(_hashed(debiased), debiased.tally, debiased.dummies, symbols)


def _hashed(debiased: Debiased) -> HashedResponse:
    randomizer = debiased.randomizer
    if not isinstance(randomizer, HashedResponse):
        raise TypeError(f"a text is decoded from hashed reports, not from those of {randomizer.kind}")
    return randomizer


def _standing_out(excess: Vector, spread: Vector) -> np.ndarray:
    """Return the places of those that stand out, the largest first: Benjamini and Yekutieli's procedure.

    It holds however the counts depend on each other: candidates share cells of the table.

    `excess` is by how many reports each is above the mean of texts that nobody holds, `spread` the variance of that.
    """
    over = np.maximum(excess, 0.0) / spread
    logs = -spread * ((1 + over) * np.log1p(over) - over)
    order = np.argsort(logs, kind="stable")
    # The i-th smallest of m may be at most i/m times the rate over 1 + 1/2 + … + 1/m; all before the last that is are
    # discoveries.
    places = np.arange(1, len(order) + 1)
    allowed = np.log(FALSE_DISCOVERIES * places / max(len(order), 1) / max(float((1 / places).sum()), 1.0))
    within = np.flatnonzero(logs[order] <= allowed)
    found = order[: within[-1] + 1] if len(within) else order[:0]
    return found[np.argsort(-excess[found], kind="stable")]
