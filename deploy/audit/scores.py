"""Scores that an attacker computes from a round. A large one means that the victim has its first answer.

Which score is best depends on the fault, so there are several, and each round gets all of them:

- `counts`: the logarithm of the likelihood ratio of a batch whose order has no information. Given the counts, each
  report is as likely the victim's: Σᵢ μ(yᵢ)/ω(yᵢ), with μ the law of the victim's answer and ω that of everyone else's;
- `place j`, from the front or from the end: that of the report at one place, as where the order of arrival is kept, or
  the permutation is always the same;
- `rows`, where a task asks several queries: the same as `counts` of reports that stand at one place in every batch, as
  where the queries of a round are permuted alike.

For several queries, the scores of all of them are added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hubbub.deploy.audit.worst_case import Likelihoods, WorstCase

if TYPE_CHECKING:
    from hubbub.queries.randomizers.randomizer import Vector

PLACES = 256
"""Most places that are looked at, from the front and from the end: the victim answers first."""

Observation = Sequence[bytes | None]
"""The joined reports of each query of a round, in their order; None if nothing was opened."""

COUNTS = "counts"
ROWS = "rows"


@dataclass(frozen=True)
class ScoredRound:
    """A round that was played: whether the victim had its first answer, and what was seen of it."""

    is_first: bool
    seen: Observation


@dataclass(frozen=True)
class Scores:
    """The scores of rounds: their names, the scores themselves, shape (rounds, names), and the victim's answers."""

    names: tuple[str, ...]
    values: Vector
    is_first: np.typing.NDArray[np.bool_]


def scored(worst: Sequence[WorstCase], rounds: Sequence[ScoredRound]) -> Scores:
    """Return the scores of rounds. What a round does not have, as a place beyond its last report, scores 0."""
    found = [_of_round(worst, each.seen) for each in rounds]
    names = tuple(dict.fromkeys(name for each in found for name in each)) or (COUNTS,)
    values = np.array([[each.get(name, 0.0) for name in names] for each in found])
    return Scores(names, values, np.array([each.is_first for each in rounds]))


def _of_round(worst: Sequence[WorstCase], seen: Observation) -> dict[str, float]:
    batches = [each.likelihoods(reports) for each, reports in zip(worst, seen, strict=True) if reports]
    scores = {COUNTS: 0.0}
    for batch in batches:
        scores[COUNTS] += _log_ratio(batch.first / batch.others, batch.second / batch.others)
        ratios = np.log(batch.first / batch.second)
        for place in range(min(PLACES, len(ratios))):
            for name, at in ((f"place {place}", place), (f"place {place} from the end", -1 - place)):
                scores[name] = scores.get(name, 0.0) + float(ratios[at])
    if len(batches) > 1 and len({len(batch.first) for batch in batches}) == 1:
        scores[ROWS] = _rows(batches)
    return scores


def _rows(batches: Sequence[Likelihoods]) -> float:
    first = np.prod([batch.first / batch.others for batch in batches], axis=0)
    second = np.prod([batch.second / batch.others for batch in batches], axis=0)
    return _log_ratio(first, second)


def _log_ratio(first: Vector, second: Vector) -> float:
    return float(np.log(first.sum()) - np.log(second.sum()))
