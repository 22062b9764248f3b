"""One person has one of two answers, everyone else a third, and the attacker knows all of it.

For kRR with three or more symbols this is the data set of feldman-2022, Thm 5.3, on which an attack comes closest to
the blanket's bound; with two symbols everyone else has the second one. For every other randomizer it is the same data
set. Whether a worse one exists is of no matter to what an audit shows, only to how much.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hubbub.queries.query import Query
from hubbub.queries.questions.question import Value

if TYPE_CHECKING:
    from hubbub.queries.randomizers.randomizer import Vector

ENCODINGS = 400
"""How often an answer is encoded to learn its symbols: a number between two symbols is either, by a draw."""


@dataclass(frozen=True)
class Likelihoods:
    """Of each report of a batch, in its order: its probability from a person with each answer; shapes (reports,)."""

    first: Vector
    second: Vector
    others: Vector


@dataclass(frozen=True)
class WorstCase:
    """One query of the worst case: the victim's two answers, and everyone else's."""

    query: Query
    first: Value
    second: Value
    others: Value

    def answer(self, is_first: bool) -> Value:
        """Return what the victim answers."""
        return self.first if is_first else self.second

    def likelihoods(self, reports: bytes) -> Likelihoods:
        """Return how likely each of the joined reports is from each answer."""
        return Likelihoods(*(self._likelihoods(reports, answer) for answer in (self.first, self.second, self.others)))

    def _likelihoods(self, reports: bytes, answer: Value) -> Vector:
        drawn = Counter(self.query.encode(answer, os.urandom) for _ in range(ENCODINGS))
        of = self.query.randomizer.likelihoods
        shares = {symbol: count / ENCODINGS for symbol, count in drawn.items()}
        mixed: Vector = np.sum([of(reports, symbol) * share for symbol, share in shares.items()], axis=0)
        return mixed


def worst_case_of(query: Query) -> WorstCase:
    """Return the worst case of a query whose rounds stand for themselves."""
    answers = (*query.question.distinct_answers(), *((None,) if query.question.optional else ()))
    return WorstCase(query, answers[0], answers[1], answers[min(2, len(answers) - 1)])
