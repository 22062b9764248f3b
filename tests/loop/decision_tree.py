"""Runs a sampler on every random number at once: its exact law, without drawing anything.

A sampler asks for bytes, makes whole numbers of them, and compares these. Here the bytes are unknown, and so are the
numbers. Where a comparison can come out either way, the run is repeated for both, each with its share of all numbers.
So the sampler's own code is run along every branch of its decision tree, and the law is a fraction.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from types import ModuleType
from typing import Any, TypeVar

from hubbub.queries.randomizers import sampling, unary
from hubbub.queries.randomizers.sampling import Random

T = TypeVar("T", bound=Hashable)

LEAST = Fraction(1, 2**90)
"""Branches that are less probable are not followed: their mass is returned as what is left open."""

MOST_BRANCHES = 256
"""Most rests of a division that are branches of their own."""

MODULES: Sequence[ModuleType] = (sampling, unary)
"""The modules that make whole numbers of random bytes."""


class _OpenBranch(BaseException):
    """This branch is not followed; no handler of a sampler catches it."""


class _Path:
    """One way through the tree: what was decided before, and what is decided on the way."""

    def __init__(self, decided: Sequence[int], least: Fraction) -> None:
        self._decided, self._least, self.mass = list(decided), least, Fraction(1)
        self.taken: list[int] = []
        self.further: list[list[int]] = []

    def choose(self, shares: Sequence[Fraction]) -> int:
        """Return which of the branches is taken; the others are noted."""
        possible = [place for place, share in enumerate(shares) if share]
        if len(possible) == 1:
            return possible[0]
        at = len(self.taken)
        if at < len(self._decided):
            chosen = self._decided[at]
        else:
            chosen = possible[0]
            self.further += [[*self.taken, other] for other in possible[1:]]
        self.taken.append(chosen)
        self.mass *= shares[chosen]
        if self.mass < self._least:
            raise _OpenBranch
        return chosen


class UnknownNumber:
    """A uniform whole number of which only ranges are known: some of [first, after)."""

    def __init__(self, path: _Path, ranges: Sequence[tuple[int, int]]) -> None:
        self._path, self._ranges = path, list(ranges)

    @property
    def _size(self) -> int:
        return sum(after - first for first, after in self._ranges)

    def _below(self, limit: int) -> bool:
        under = [(first, min(after, limit)) for first, after in self._ranges if first < limit]
        over = [(max(first, limit), after) for first, after in self._ranges if after > limit]
        return self._split(under, over)

    def _split(self, inside: list[tuple[int, int]], outside: list[tuple[int, int]]) -> bool:
        whole = self._size
        shares = [Fraction(sum(after - first for first, after in part), whole) for part in (inside, outside)]
        chosen = self._path.choose(shares) == 0
        self._ranges = inside if chosen else outside
        return chosen

    def __lt__(self, limit: int) -> bool:
        return self._below(limit)

    def __ge__(self, limit: int) -> bool:
        return not self._below(limit)

    def __eq__(self, other: object) -> bool:
        assert isinstance(other, int)
        inside = [(other, other + 1) for first, after in self._ranges if first <= other < after]
        outside = [
            part
            for first, after in self._ranges
            for part in ((first, min(after, other)), (max(first, other + 1), after))
            if part[0] < part[1]
        ]
        return self._split(inside, outside)

    __hash__ = None  # type: ignore[assignment]

    def __mod__(self, count: int) -> int | UnknownNumber:
        """Return the rest; nothing more may be asked of the number."""
        if count > MOST_BRANCHES:
            # Each rest is as likely, so it is left unknown: comparisons with it make few branches.
            ((first, after),) = self._ranges
            assert (first, after % count) == (0, 0)
            return UnknownNumber(self._path, [(0, count)])
        found = [0] * count
        for first, after in self._ranges:
            for rest in range(count):
                found[rest] += (after - 1 - rest) // count - (first - 1 - rest) // count
        whole = self._size
        self._ranges = []
        return self._path.choose([Fraction(each, whole) for each in found])

    def __and__(self, mask: int) -> int | UnknownNumber:
        assert mask & mask + 1 == 0
        return self % (mask + 1)

    def __sub__(self, shift: int) -> UnknownNumber:
        return UnknownNumber(self._path, [(first - shift, after - shift) for first, after in self._ranges])

    __isub__ = __sub__


@dataclass(frozen=True)
class UnknownBytes:
    """Uniform bytes; parts of them that are numbers may not overlap."""

    path: _Path
    length: int

    def __getitem__(self, part: slice) -> UnknownBytes:
        first, after, step = part.indices(self.length)
        assert step == 1
        return UnknownBytes(self.path, after - first)

    def number(self) -> UnknownNumber:
        """Return them as a number."""
        return UnknownNumber(self.path, [(0, 256**self.length)])


class _Whole(int):
    """Stands for `int` in a module: it makes a number of unknown bytes, too."""

    @classmethod
    def from_bytes(cls, data: Any, byteorder: Any = "big", **others: Any) -> Any:  # type: ignore[override]
        """Return the number of these bytes."""
        return data.number() if isinstance(data, UnknownBytes) else int.from_bytes(data, byteorder, **others)


@contextmanager
def _unknown_numbers() -> Iterator[None]:
    for module in MODULES:
        vars(module)["int"] = _Whole
    try:
        yield
    finally:
        for module in MODULES:
            del vars(module)["int"]


@dataclass(frozen=True)
class ExactLaw:
    """The probability of each outcome, and of all branches that were not followed together."""

    masses: dict[Any, Fraction]
    left: Fraction

    def is_(self, law: dict[Any, Fraction]) -> bool:
        """Whether it is this law: equal, or between what was found and that with all that was left."""
        outcomes = self.masses.keys() | {outcome for outcome, mass in law.items() if mass > self.left}
        return sum(law.values()) == 1 and all(
            self.masses.get(each, 0) <= law.get(each, Fraction(0)) <= self.masses.get(each, 0) + self.left
            for each in outcomes
        )


def law_of(sampler: Callable[[Random], T], least: Fraction = LEAST) -> ExactLaw:
    """Return the exact law of what `sampler` returns, given its source of random bytes.

    A branch that is less probable than `least` is not followed to its end.
    """
    masses: dict[Any, Fraction] = defaultdict(Fraction)
    open_: list[list[int]] = [[]]
    left = Fraction(0)
    with _unknown_numbers():
        while open_:
            path = _Path(open_.pop(), least)

            def random(count: int, path: _Path = path) -> Any:
                return UnknownBytes(path, count)

            try:
                outcome = sampler(random)
            except _OpenBranch:
                left += path.mass
            else:
                masses[outcome] += path.mass
            open_ += path.further
    return ExactLaw(dict(masses), left)
