"""Defines kRR of a hash of the answer, under one of many public hash functions."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

from hubbub.accountant.errors import AccountingError, shown
from hubbub.accountant.mechanisms.exact_values import Fits, check_content, is_count, is_ratio, short_repr
from hubbub.accountant.mechanisms.krr import KRR

CELLS_LEAST = 3
"""Fewest cells: with two, kRR has its own pair (`pairs.two_rr`), which is not proven for hashes."""

TABLE_LIMIT = 2**32
"""Most cells in all rows: a report names one of them in 32 bits."""


@dataclass(frozen=True)
class Hashed:
    """A report is (r, y): the row r is uniform in range(rows), y is kRR over `cells` values of the answer's hash h_r.

    The hash functions may be any, but they are fixed beforehand and public. A report of x is (r, h_r(x)) with
    probability (1 − γ + γ/g)/R, and each other cell of row r with γ/(gR). So its local ε is kRR's over g = `cells`
    values, attained if some h_r(x) ≠ h_r(x'). A batch's δ is at most that of kRR over g values at the same n and with
    as many dummies, which are uniform cells (docs/explanation/accounting-hashed.md).

    Raises AccountingError for numbers out of range.
    """

    kind: ClassVar[str] = "hashed"
    counts_dummies: ClassVar[bool] = True
    members: ClassVar[Mapping[str, Fits]] = {"cells": is_count, "gamma": is_ratio, "rows": is_count}

    cells: int
    rows: int
    gamma: Fraction

    __repr__ = short_repr

    def __post_init__(self) -> None:
        _check_count("cells", self.cells, CELLS_LEAST)
        _check_count("rows", self.rows, 1)
        if self.cells * self.rows > TABLE_LIMIT:
            raise AccountingError(
                f"{self.rows} rows of {self.cells} cells are more than {TABLE_LIMIT} cells in all; use fewer"
            )
        # kRR checks γ.
        self.krr  # noqa: B018 - made for its checks

    @classmethod
    def from_numerator(cls, cells: int, rows: int, numerator: int) -> "Hashed":
        """Return the mechanism with gamma = `numerator` / 2**32, the form that a task fixes."""
        return cls(cells, rows, KRR.from_numerator(max(cells, 2) if isinstance(cells, int) else 2, numerator).gamma)

    @classmethod
    def from_local_epsilon(cls, cells: int, rows: int, epsilon_local: float) -> "Hashed":
        """Return the mechanism of local privacy `epsilon_local`, taken as an exact real number.

        Its gamma is that of `KRR.from_local_epsilon` over the cells: never above the exact one, so its bounds are valid
        for the mechanism with exactly this local ε. Its `epsilon_local` is the given number.
        """
        _check_count("cells", cells, CELLS_LEAST)
        krr = KRR.from_local_epsilon(cells, epsilon_local)
        mechanism = cls(cells, rows, krr.gamma)
        # The cached property looks here first; this kRR has the given number as its local ε.
        mechanism.__dict__["krr"] = krr
        return mechanism

    @cached_property
    def krr(self) -> KRR:
        """KRR over the cells of one row; its bounds are valid for this mechanism."""
        return KRR(self.cells, self.gamma)

    def content(self) -> dict[str, Any]:
        """Return its one form as JSON values; raises AccountingError if gamma is not a multiple of 1/2**32."""
        gamma = self.krr.content()["gamma"]
        return {"mechanism": self.kind, "cells": self.cells, "gamma": gamma, "rows": self.rows}

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> "Hashed":
        """Read the output of `content`; raises AccountingError for anything else."""
        check_content(cls.kind, cls.members, content)
        return cls.from_numerator(content["cells"], content["rows"], content["gamma"][0])

    @property
    def likelihood_ratio(self) -> Fraction:
        """Largest ratio of two answers' probabilities for one report: e^epsilon_local, exactly."""
        return self.krr.likelihood_ratio

    @property
    def epsilon_local(self) -> float:
        """ln(1 + g (1 - gamma) / gamma), rounded up: never below the truth."""
        return self.krr.epsilon_local

    def law(self, places: tuple[int, ...]) -> tuple[Fraction, ...]:
        """Return the exact output law for an answer with the hashes `places`, one in range(cells) for each row.

        Entry r·cells + y is the probability of the report (r, y).
        """
        if len(places) != self.rows:
            raise AccountingError(f"there are {len(places)} hashes; give one for each of the {self.rows} rows")
        return tuple(each / self.rows for place in places for each in self.krr.law(place))


def _check_count(name: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise AccountingError(f"{name} is {shown(value)}; give a whole number of at least {least}, as an int")
