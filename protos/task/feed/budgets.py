"""Defines budgets of purposes: the (ε, δ) that all tasks of one purpose together may spend for one person.

The first entry of a feed that names a purpose states its budget. Each task of the purpose takes a share of it, which is
what the task itself caps: its `epsilon_total`, at its δ. Shares are taken when an entry is published, and nothing gives
one back. The sum of the shares of ε stays within the budget's ε, and that of δ within its δ. Numbers are added as the
decimals that people write, exactly.

Why this holds. Three steps, each for one person who takes part in everything:

1. A task is (ε, δ)-private over all its rounds, for its `epsilon_total` and its δ. The accountant composes the rounds
   at the minimum that the task fixed, and a round beyond the cap is not counted (`accountant.spending.ledger`).
2. Tasks that run one after the other, each planned by people who saw all results before: let P and Q be the laws of
   all results for two sets of answers of the person, and S any set of results. The first task has the share (e, d) and
   the result h. What is left of the budget then, (E', D') = (E - e, D - d), does not depend on h. By induction over the
   number of tasks it covers all that comes after h: P(S | h) ≤ min(1, exp(E') Q(S | h)) + D'. For any function f of h
   with values from 0 to 1, the first task gives E_P[f] ≤ exp(e) E_Q[f] + d. With f = min(1, exp(E') Q(S | h)) this says
   that P(S) ≤ E_P[f] + D' ≤ exp(e + E') Q(S) + d + D' = exp(E) Q(S) + D. This is basic composition with parameters that
   are chosen on the way (Rogers, Roth, Ullman and Vadhan, 2016, "Privacy odometers and filters").
3. Tasks that run at the same time, whose rounds alternate: what covers tasks one after the other covers them
   interleaved, for (ε, δ), also if shares are chosen on the way (Haney and others, 2023, "Concurrent composition for
   interactive differential privacy with adaptive privacy-loss parameters"), and if answers come in over time
   (Henzinger, Safavi and Vadhan, 2024, "Concurrent composition for differentially private continual mechanisms").

Sharper rules exist, and are not used. To compose the losses of all tasks at once, as those of a task's rounds are, is
proven for parameters that were fixed beforehand. For those that are chosen on the way there are privacy filters: one
has the form of advanced composition (Whitehouse, Ramdas, Rogers and Wu, 2023, "Fully-adaptive composition in
differential privacy"), others add up Rényi divergences (Feldman and Zrnic, 2021, "Individual privacy accounting via a
Rényi filter"). Of m tasks of e each the first has √(2m·ln(1/d'))·e + m·e²/2. That is above the plain sum m·e if m is at
most 2·ln(1/d'), which is 27 tasks at d' = 1e-6. Only a purpose of more tasks would gain.

An end gives nothing back. What a task's rounds so far cost is computed for a number of rounds that was fixed
beforehand, and when a task ends may depend on its results. An odometer allows that, but costs more: Rogers and others
show that it must.

A batch with fewer valid honest reports than its minimum costs more than was fixed (docs/explanation/accounting-rounds,
"A round that turns out short"). The analyzer counts that against the budget, too (`analyzer.charges`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from hubbub.protos.task.task import Task
from hubbub.queries.errors import FieldError
from hubbub.queries.fields import check_name

_MEMBERS = {"delta", "epsilon", "purpose"}


@dataclass(frozen=True)
class PurposeBudget:
    """The (ε, δ) that all tasks of a purpose together may spend for one person.

    Raises:
        ValueError: if the purpose is no name, ε is not above 0, or δ not between 0 and 1.
    """

    purpose: str
    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        try:
            check_name("budget", self.purpose)
        except FieldError as error:
            raise ValueError(f"a purpose has a name like that of a task: {error}") from error
        for name, value, limit in (("ε", self.epsilon, math.inf), ("δ", self.delta, 1.0)):
            if type(value) is not float or not 0 < value < limit:
                raise ValueError(f"the budget's {name} is {value!r:.40}; give a number above 0 and below {limit:g}")

    def in_words(self) -> str:
        """Return what it allows."""
        return f"ε ≤ {self.epsilon:.9g} at δ ≤ {self.delta:.9g} for all tasks of purpose {self.purpose} together"

    def content(self) -> dict[str, Any]:
        """Return the member of an entry's body."""
        return {"delta": self.delta, "epsilon": self.epsilon, "purpose": self.purpose}

    @classmethod
    def read(cls, content: Any) -> PurposeBudget:
        """Read the member of an entry's body.

        Raises:
            ValueError: if it has another form.
        """
        if not isinstance(content, dict) or set(content) != _MEMBERS:
            raise ValueError("a budget has the members delta, epsilon and purpose")
        numbers = [content["epsilon"], content["delta"]]
        if not all(type(each) in (int, float) for each in numbers):
            raise ValueError("a budget's epsilon and delta are numbers")
        return cls(content["purpose"], *map(float, numbers))


class ShareError(ValueError):
    """A task has no share of its purpose's budget, or a larger one than is left."""


@dataclass(frozen=True)
class Share:
    """What a task takes of its purpose's budget: ε and δ over all its rounds, exactly."""

    epsilon: Fraction = Fraction(0)
    delta: Fraction = Fraction(0)

    def __add__(self, other: Share) -> Share:
        """Return both together."""
        return Share(self.epsilon + other.epsilon, self.delta + other.delta)

    @classmethod
    def of(cls, task: Task) -> Share:
        """Return the share that a task takes.

        Raises:
            ShareError: if the task has no cap over all its rounds.
        """
        total = task.privacy.epsilon_total
        if total is None:
            raise ShareError(
                f"task {task.name} does not cap what all its rounds cost together, which would be its share of the "
                "budget; write epsilon_total into its draft, and plan it again"
            )
        return cls(exactly(total), exactly(task.privacy.delta))


def exactly(value: float) -> Fraction:
    """Return the decimal that a person wrote, and not the binary number nearest to it: 0.1 three times is 0.3."""
    return Fraction(repr(float(value)))


@dataclass(frozen=True)
class PurposeSpending:
    """A purpose's budget, what its tasks take together (`spent`), and the share of each by its id (`tasks`)."""

    budget: PurposeBudget
    spent: Share = Share()
    tasks: Mapping[bytes, Share] = field(default_factory=dict)

    @property
    def left(self) -> Share:
        """What a further task may take."""
        total = Share(exactly(self.budget.epsilon), exactly(self.budget.delta))
        return Share(total.epsilon - self.spent.epsilon, total.delta - self.spent.delta)

    def with_task(self, task: Task) -> PurposeSpending:
        """Return the spending with one more task.

        Raises:
            ShareError: if it has no share, or a larger one than is left; it says what is left.
        """
        share, left = Share.of(task), self.left
        if share.epsilon > left.epsilon or share.delta > left.delta:
            raise ShareError(
                f"task {task.name} would take ε {float(share.epsilon):.9g} and δ {float(share.delta):.9g} of the "
                f"budget of purpose {self.budget.purpose}, of which {self.in_words()}; plan it with an "
                "epsilon_total and a δ that are left, or publish no more tasks of this purpose"
            )
        return PurposeSpending(self.budget, self.spent + share, {**self.tasks, task.id: share})

    def in_words(self) -> str:
        """Return what is spent and what is left."""
        spent, left, budget = self.spent, self.left, self.budget
        return (
            f"ε {float(spent.epsilon):.9g} of {budget.epsilon:.9g} is spent and {float(left.epsilon):.9g} left, "
            f"δ {float(spent.delta):.9g} of {budget.delta:.9g} is spent and {float(left.delta):.9g} left"
        )

    def as_json(self) -> dict[str, Any]:
        """Return the budget, what is spent and what is left as JSON."""
        members = {
            name: {"epsilon": float(share.epsilon), "delta": float(share.delta)}
            for name, share in (("spent", self.spent), ("left", self.left))
        }
        return {**self.budget.content(), **members, "tasks": [each.hex() for each in self.tasks]}
