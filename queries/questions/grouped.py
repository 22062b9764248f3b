"""The grouped question: another question by one or two attributes, asked of each person as one joint answer.

A person's group and answer are one symbol, group · symbols + answer, and one report. So nothing is spent twice, and a
person's group is as private as the answer. The numbers of a group, of an attribute's value over the other attribute,
and of everybody are computed from the same joint counts (`marginals`), so totals are the sums of their groups.

For kRR a count of one of G groups has about the error that the count of everybody has with G times the symbols.
Planning uses the inner question's statistic in one group, in the worst case: everybody is in it.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar

from hubbub.queries.errors import AnswerError, FieldError, shown
from hubbub.queries.estimation.estimates import Estimates, Group, Truth, key_in
from hubbub.queries.fields import DEFAULT_RANDOMIZER, MAXIMUM_SYMBOLS, Fields, check_keys, check_shared
from hubbub.queries.questions.distribution import Distribution
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.questions.number import Number
from hubbub.queries.questions.question import Question, Value, symbols_of
from hubbub.queries.questions.variance import Variance
from hubbub.queries.randomizers.sampling import Random

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from hubbub.queries.estimation.debiased import Debiased
    from hubbub.queries.randomizers.randomizer import Vector

OF: Mapping[str, type[Question]] = {each.kind: each for each in (Histogram, Number, Distribution, Variance)}
"""The questions that can be asked by group."""

MOST_ATTRIBUTES = 2
"""Most attributes of one question; results name up to two."""

_OWN = ("name", "weight", "randomizer", "error")


@dataclass(frozen=True)
class Grouped:
    """The question `of` by each of the attributes `by`, whose values are named categories.

    An answer maps each attribute's name to its value, and the query's own name to the answer to `of`, which may be None
    if `of` is optional. If the grouped question itself is optional, a person may also give no answer at all.
    """

    kind: ClassVar[str] = "grouped"
    column: ClassVar[type] = dict

    name: str
    by: tuple[Histogram, ...]
    of: Question
    optional: bool = False
    weight: float = 1.0
    randomizer: str = DEFAULT_RANDOMIZER

    @property
    def groups(self) -> int:
        """How many groups there are: one for each combination of the attributes' values."""
        return prod(attribute.answers for attribute in self.by)

    @property
    def answers(self) -> int:
        """How many symbols encode answers: one for each group and symbol of the inner question."""
        return self.groups * symbols_of(self.of)

    @property
    def parts(self) -> tuple[Question, ...]:
        """The attributes, and the inner question, which has the query's name."""
        return (*self.by, self.of)

    @classmethod
    def read(cls, fields: Fields) -> Grouped:
        """Read a table with the list `by` and the table `of`; see `Question.read`."""
        fields.check_keys({"by", "of"})
        by = tuple(
            _attribute(f"{fields.table}.by[{place}]", each)
            for place, each in enumerate(fields.items("by", "tables, such as { name = 'region', categories = [...] }"))
        )
        return cls(by=by, of=_inner(fields), **fields.shared())

    def check(self, table: str) -> None:
        """Check the shared fields, each attribute, the inner question, that names differ, and the number of symbols."""
        check_shared(table, self.name, self.optional, self.weight)
        if not 1 <= len(self.by) <= MOST_ATTRIBUTES:
            raise FieldError(table, "by", f"has {len(self.by)} attributes; give one or two")
        for place, attribute in enumerate(self.by):
            attribute.check(f"{table}.by[{place}]")
            if attribute.name in {self.name, *(other.name for other in self.by[:place])}:
                problem = f"is {attribute.name!r}, the name of the query or another attribute; use another name"
                raise FieldError(f"{table}.by[{place}]", "name", problem)
        self.of.check(f"{table}.of")
        if getattr(self.of, "digits", None) is not None:
            problem = "are given, but the sum of a group has none; leave them out, or ask for the sum without groups"
            raise FieldError(f"{table}.of", "digits", problem)
        least = self.groups * (self.of.sizes.start + (1 if self.of.optional else 0))
        if least >= MAXIMUM_SYMBOLS:
            limit = f"fewer than {MAXIMUM_SYMBOLS}; use fewer categories, or one attribute"
            raise FieldError(
                table, "by", f"makes {self.groups} groups and {least} symbols or more; there must be {limit}"
            )

    def content(self) -> dict[str, Any]:
        """Return the members of a task's JSON."""
        return {
            "by": [{"categories": list(each.categories), "name": each.name} for each in self.by],
            "kind": self.kind,
            "name": self.name,
            "of": {key: value for key, value in self.of.content().items() if key not in _OWN},
            "optional": self.optional,
            "weight": self.weight,
        }

    def parse(self, text: str) -> Value:
        """Return the answer in a line of CSV: the attributes' values in order, then the answer, which may be empty."""
        cells = next(csv.reader([text], skipinitialspace=True), [])
        if len(cells) != len(self.parts):
            order = ",".join(part.name for part in self.parts)
            found = f"{len(cells)} values, not {len(self.parts)}"
            raise AnswerError(
                f"the answer to {self.name} has {found}; write {order}, with quotes around a value that has a comma"
            )
        answer: dict[str, Any] = {}
        for part, cell in zip(self.parts, cells, strict=True):
            answer[part.name] = part.parse(cell) if cell or not part.optional else None
        return answer

    def encode(self, answer: Value, random: Random) -> int:
        """Return the group's index times the number of inner symbols, plus the answer's inner symbol."""
        if not isinstance(answer, Mapping) or not set(answer) <= {part.name for part in self.parts}:
            names = ", ".join(part.name for part in self.parts)
            raise AnswerError(f"the answer to {self.name} must be a mapping with the keys {names}")
        group = 0
        for attribute in self.by:
            group = group * attribute.answers + attribute.encode(answer.get(attribute.name), random)
        value = answer.get(self.of.name)
        if value is None and self.of.optional:
            return group * symbols_of(self.of) + self.of.answers
        return group * symbols_of(self.of) + self.of.encode(value, random)

    def distinct_answers(self) -> tuple[Value, ...]:
        """Return answers of people in the first group, and in another one."""
        first, last = ({each.name: each.categories[place] for each in self.by} for place in (0, -1))
        own = self.of.distinct_answers()
        answers: list[Any] = [{**first, self.of.name: value} for value in own] + [{**last, self.of.name: own[0]}]
        return tuple(answers[:3])

    @property
    def sizes(self) -> range:
        """The numbers of answers to choose from: those of the inner question, times the groups."""
        inner, silent = self.of.sizes, 1 if self.of.optional else 0
        first, last = self.groups * (inner.start + silent), self.groups * (inner[-1] + silent)
        return range(first, max(first, min(last, MAXIMUM_SYMBOLS - 1)) + 1, self.groups)

    def sized(self, answers: int) -> Grouped:
        """Return the question with the inner one encoded into its part of so many answers."""
        return replace(self, of=self.of.sized(answers // self.groups - (1 if self.of.optional else 0)))

    @property
    def planned_for(self) -> str:
        """The statistic of the expected error."""
        return f"{self.of.planned_for} in one group"

    @property
    def extent(self) -> float:
        """The inner question's extent."""
        return self.of.extent

    def headline(self) -> Vector:
        """Return the weights of the inner headline in the first group: all groups have the same error."""
        import numpy as np

        inner = self.of.headline()
        return np.concatenate([inner, np.zeros(symbols_of(self) - len(inner))])

    def worst(self, variances: Vector) -> float:
        """Return the larger of the worst variance in that group, including its encoding's, and that in all others."""
        inside = symbols_of(self.of)
        return max(self.of.worst(variances[:inside]), float(variances[inside:].max()))

    def estimates(self, debiased: Debiased) -> Estimates:
        """Return the rows of the inner question for everybody, for each attribute's values, and for each group."""
        from hubbub.queries.questions.marginals import Marginal

        size, rows, first = symbols_of(self.of), [], None
        for group, place in self._marginals():
            found = self.of.estimates(Marginal.of(debiased, place, size))
            first = first or found
            rows += [replace(row, group=group) for row in found.rows]
        if first is None:
            raise ValueError("there is always the marginal of everybody")
        return replace(first, kind=self.kind, rows=tuple(rows))

    def _marginals(self) -> Iterator[tuple[Group, npt.NDArray[np.int64]]]:
        """Return each group and the inner symbol of each joint symbol, −1 outside; everybody first."""
        import numpy as np

        size = symbols_of(self.of)
        joint = np.arange(self.groups * size).reshape(*(each.answers for each in self.by), size) % size
        spare = np.full(symbols_of(self) - self.answers, -1)
        for chosen in self._choices():
            # An attribute that is not fixed includes all its values.
            index = tuple(slice(None) if value is None else value for value in chosen)
            place = np.full(joint.shape, -1)
            place[index] = joint[index]
            yield self._group(chosen), np.concatenate([place.reshape(-1), spare])

    def _choices(self) -> list[tuple[int | None, ...]]:
        """Return every choice of a value, or none, for each attribute: those that fix fewer attributes come first."""
        choices = product(*((None, *range(each.answers)) for each in self.by))
        return sorted(choices, key=lambda chosen: ([value is not None for value in chosen].count(True), _order(chosen)))

    def _group(self, chosen: tuple[int | None, ...]) -> Group:
        fixed = zip(self.by, chosen, strict=True)
        return tuple((each.name, each.categories[value]) for each, value in fixed if value is not None)

    def truth(self, answers: Iterable[Value]) -> Truth:
        """Return the inner question's true values for everybody and for each group."""
        known = [answer for answer in answers if isinstance(answer, Mapping)]
        truth: dict[tuple[str, str | None], float] = {}
        for chosen in self._choices():
            group = self._group(chosen)
            inside = (answer for answer in known if all(answer.get(name) == value for name, value in group))
            inner = self.of.truth(answer.get(self.of.name) for answer in inside)
            truth |= {key_in(group, key): value for key, value in inner.items()}
        return truth


def _order(chosen: tuple[int | None, ...]) -> list[int]:
    # The first attribute's values before the second's.
    return [10**9 if value is None else value for value in chosen]


def _attribute(table: str, content: Any) -> Histogram:
    if not isinstance(content, dict):
        raise FieldError(
            table, "name", f"is missing: {shown(content)} is no table; write {{ name = …, categories = … }}"
        )
    check_keys(table, content, {"name", "categories"}, set())
    return Histogram(content["name"], Fields(table, content).items("categories", "names"))


def _inner(fields: Fields) -> Question:
    """Read the inner question; its name is the query's."""
    table, content = f"{fields.table}.of", fields["of"]
    if not isinstance(content, dict):
        raise FieldError(fields.table, "of", f"is {shown(content)}; it must be a table with its own kind")
    for key in _OWN:
        if key in content:
            raise FieldError(table, key, "belongs to the whole query; move it there, or leave it out")
    kind = content.get("kind")
    found = OF.get(kind) if isinstance(kind, str) else None
    if found is None:
        raise FieldError(table, "kind", f"is {shown(kind)}; it must be {' or '.join(map(repr, OF))}")
    return found.read(Fields(table, {**content, "name": fields["name"]}, fields.planned))
