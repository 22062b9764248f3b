"""The registry of all kinds of questions and randomizers; a new kind is one more line here."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import TypeVar

from hubbub.queries.errors import FieldError, shown
from hubbub.queries.fields import Fields
from hubbub.queries.longitudinal.question import Longitudinal
from hubbub.queries.questions.bit import Bit
from hubbub.queries.questions.distribution import Distribution
from hubbub.queries.questions.grouped import Grouped
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.questions.number import Number
from hubbub.queries.questions.question import Question
from hubbub.queries.questions.top import Top
from hubbub.queries.questions.variance import Variance
from hubbub.queries.randomizers.hashed import HashedResponse
from hubbub.queries.randomizers.krr import KRandomizedResponse
from hubbub.queries.randomizers.randomizer import Randomizer
from hubbub.queries.randomizers.unary import UnaryEncoding
from hubbub.queries.texts.text import Text

QUESTIONS: Mapping[str, type[Question]] = {
    Histogram.kind: Histogram,
    Number.kind: Number,
    Distribution.kind: Distribution,
    Grouped.kind: Grouped,
    Variance.kind: Variance,
    Top.kind: Top,
    Text.kind: Text,
    Longitudinal.kind: Longitudinal,
}
"""What a draft may ask."""

PLANNED: Mapping[str, type[Question]] = {**QUESTIONS, Bit.kind: Bit}
"""What a frozen task may have: planning makes several queries of one question that is asked by digits."""

RANDOMIZERS: Mapping[str, type[Randomizer]] = {
    KRandomizedResponse.kind: KRandomizedResponse,
    UnaryEncoding.kind: UnaryEncoding,
    HashedResponse.kind: HashedResponse,
}

T = TypeVar("T")


def question_of(table: str, kind: object, planned: bool = False) -> type[Question]:
    """Return the class of a kind of question, of a draft or a planned one; an unknown one is an error.

    Raises:
        FieldError: naming the kinds there are.
    """
    return _found(PLANNED if planned else QUESTIONS, table, "kind", kind)


class _KeysFound(Exception):
    """Which keys a question's reader takes, from the check that it begins with."""

    def __init__(self, required: frozenset[str], optional: frozenset[str]) -> None:
        super().__init__()
        self.required, self.optional = required, optional


class _KeyFields(Fields):
    def check_keys(self, required: Set[str], optional: Set[str] = frozenset()) -> None:
        raise _KeysFound(frozenset(required), frozenset(optional))


def keys_of(kind: type[Question]) -> tuple[frozenset[str], frozenset[str]]:
    """Return the required and the optional keys that a kind of question adds to those of every query in a draft."""
    try:
        kind.read(_KeyFields("", {}))
    except _KeysFound as found:
        return found.required, found.optional
    raise NotImplementedError(f"{kind.__name__}.read checks no keys before it reads them; call fields.check_keys first")


def randomizer_of(table: str, kind: object, key: str = "randomizer", also: tuple[str, ...] = ()) -> type[Randomizer]:
    """Return the class of a kind of randomizer; an unknown one is an error, never another kind.

    A frozen task writes the kind under another `key` than a draft does. `also` are words that a draft
    may have instead of a kind, such as "auto": the error names them too.

    Raises:
        FieldError: naming the kinds there are.
    """
    return _found(RANDOMIZERS, table, key, kind, also)


def _found(known: Mapping[str, T], table: str, key: str, kind: object, also: tuple[str, ...] = ()) -> T:
    found = known.get(kind) if isinstance(kind, str) else None
    if found is None:
        raise FieldError(table, key, f"is {shown(kind)}; it must be {' or '.join(map(repr, (*known, *also)))}")
    return found
