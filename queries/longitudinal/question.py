"""The longitudinal question: how many people are in state yes after each round, as states change over time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from hubbub.accountant.mechanisms import paid_rounds
from hubbub.accountant.mechanisms.longitudinal import CHANGES_LIMIT, PERIODS_LIMIT, Horizon
from hubbub.queries.errors import AnswerError, FieldError, shown
from hubbub.queries.estimation.estimates import Estimates, Truth
from hubbub.queries.fields import DEFAULT_RANDOMIZER, Fields, check_count, check_shared
from hubbub.queries.longitudinal.over_rounds import OverRounds
from hubbub.queries.longitudinal.strategies import SENDINGS
from hubbub.queries.longitudinal.strategy import STEADY_MISSING, Sending
from hubbub.queries.questions.question import Value
from hubbub.queries.randomizers.sampling import Random

if TYPE_CHECKING:
    from hubbub.queries.estimation.debiased import Debiased
    from hubbub.queries.randomizers.randomizer import Randomizer, Vector

AUTO = "auto"
"""The strategy of a draft that leaves the choice to planning."""

_YES, _NO = ("yes", "true", "y", "t", "on", "1", "1.0"), ("no", "false", "n", "f", "off", "0", "0.0")

WORDS: Mapping[str, bool] = {**dict.fromkeys(_YES, True), **dict.fromkeys(_NO, False)}
"""The words for a state, typed or in a table; 1.0 is how a table writes 1 if some of its fields are empty."""


def state_of(text: str) -> bool | None:
    """Return the state that a word is for, in any case and with spaces around it; None if it is for none."""
    return WORDS.get(text.strip().lower())


@dataclass(frozen=True)
class Longitudinal:
    """How many people's state is yes after each of `periods` rounds; every state is no before the first.

    A stream of states changes at most `changes` times: further changes are clipped, so the state stays. A device
    without an answer keeps its last state.

    Attributes:
        name: the query's name.
        changes: the most changes of a stream.
        strategy: how the stream is sent.
        steady_share: the share of the minimum's honest people who answer every round, as the task's author states it.
            None if it is not stated; then strategies whose certificate rests on these people cannot be chosen.
        epsilon_local: the cap on the local ε over all rounds; None means the task's cap.
        weight: the weight of the query in planning.
        periods: the rounds of the task; None in a draft, which means all rounds of its task.
    """

    kind: ClassVar[str] = "longitudinal"
    column: ClassVar[type] = str

    name: str
    changes: int
    strategy: str = AUTO
    steady_share: float | None = None
    epsilon_local: float | None = None
    weight: float = 1.0
    periods: int | None = None

    @property
    def optional(self) -> bool:
        """False: there is no symbol for "no answer", because a device without an answer keeps its last state."""
        return False

    @property
    def randomizer(self) -> str:
        """The default, which a draft does not name: the strategy determines the randomizer."""
        return DEFAULT_RANDOMIZER

    @property
    def answers(self) -> int:
        """No and yes."""
        return 2

    @property
    def parts(self) -> tuple[Longitudinal]:
        """Itself."""
        return (self,)

    @property
    def horizon(self) -> Horizon:
        """The periods and changes of a frozen task's question."""
        if self.periods is None:
            raise FieldError("query", "periods", "is missing; `hubbub plan` sets it to the task's rounds")
        return Horizon(self.periods, self.changes)

    @classmethod
    def read(cls, fields: Fields) -> Longitudinal:
        """Read a table; see `Question.read`. Only a planned one has periods."""
        fields.check_keys({"changes"}, {"strategy", "steady_share", "epsilon_local"})
        for key in ("optional", "randomizer"):
            if not fields.planned and key in fields.content:
                problem = "is given; a longitudinal question has a strategy instead, and needs no answer: leave it out"
                raise FieldError(fields.table, key, problem)
        shared = fields.shared()
        return cls(
            name=shared["name"],
            changes=fields["changes"],
            strategy=fields.get("strategy", AUTO),
            steady_share=_number_or_none(fields, "steady_share"),
            epsilon_local=_number_or_none(fields, "epsilon_local"),
            weight=shared["weight"],
            periods=fields["periods"] if fields.planned else None,
        )

    def check(self, table: str) -> None:
        """Check the shared fields, the changes, the strategy, the share, the cap, and the periods if they are known."""
        check_shared(table, self.name, self.optional, self.weight)
        check_count(table, "changes", self.changes, 1, CHANGES_LIMIT)
        words = [*SENDINGS] if self.periods is not None else [AUTO, *SENDINGS]
        if self.strategy not in words:
            known = " or ".join(map(repr, words))
            raise FieldError(table, "strategy", f"is {shown(self.strategy)}; it must be {known}")
        self._check_steady(table)
        if self.epsilon_local is not None and not 0 < self.epsilon_local <= 1e6:
            problem = f"is {shown(self.epsilon_local)}; it must be above 0 and at most 1e6"
            raise FieldError(table, "epsilon_local", problem)
        if self.periods is not None:
            check_count(table, "periods", self.periods, 1, PERIODS_LIMIT)
            check_count(table, "changes", self.changes, 1, min(CHANGES_LIMIT, self.periods))

    def _check_steady(self, table: str) -> None:
        if self.steady_share is not None and not 0 < self.steady_share <= 1:
            problem = f"is {shown(self.steady_share)}; it must be above 0 and at most 1"
            raise FieldError(table, "steady_share", problem)
        if self.steady_share is None and self.strategy != AUTO and SENDINGS[self.strategy].counts_on_steady:
            others = " or ".join([AUTO, *(word for word, each in SENDINGS.items() if not each.counts_on_steady)])
            problem = f"is missing, and strategy {self.strategy!r} {STEADY_MISSING}, or choose {others}"
            raise FieldError(table, "steady_share", problem)

    def check_rounds(self, table: str, rounds: int) -> None:
        """Check that a task of so many rounds can ask it: a round is a period.

        Raises:
            FieldError: if it cannot.
        """
        check_count("task", "rounds", rounds, 1, PERIODS_LIMIT)
        if self.changes > rounds:
            limit = f"the task has {rounds} rounds, and a state changes once in each at most"
            raise FieldError(table, "changes", f"is {self.changes}; {limit}: choose at most {rounds}, or more rounds")
        if self.periods not in (None, rounds):
            raise FieldError(table, "periods", f"is {self.periods}; the task has {rounds} rounds, and each is a period")

    def check_promise(self, table: str, randomizer: Randomizer, honest: int, delta: float) -> None:
        """Check the steady people that a strategy assumes, and the question's own cap on the local ε over all rounds.

        Raises:
            FieldError: if it assumes more than there are, or the local ε is above the cap.
        """
        if isinstance(randomizer, OverRounds):
            randomizer.check_steady_people(table, honest, self.steady_share, delta)
        if self.epsilon_local is not None and self.periods is not None:
            mechanism = randomizer.mechanism
            reached = paid_rounds(mechanism, self.periods) * mechanism.epsilon_local
            if reached > self.epsilon_local * (1 + 1e-9):
                problem = f"is {self.epsilon_local:g}; the strategy's over all rounds is {reached:.6g}, plan it again"
                raise FieldError(table, "epsilon_local", problem)

    def content(self) -> dict[str, Any]:
        """Return the members of a task's JSON."""
        return {
            "changes": self.changes,
            "epsilon_local": self.epsilon_local,
            "kind": self.kind,
            "name": self.name,
            "periods": self.periods,
            "steady_share": self.steady_share,
            "strategy": self.strategy,
            "weight": self.weight,
        }

    def frozen(self, strategy: str, rounds: int) -> Longitudinal:
        """Return the question as in a frozen task of so many rounds, sent by that strategy."""
        return replace(self, strategy=strategy, periods=rounds)

    def read_randomizer(self, fields: Fields) -> Sending:
        """Read the parameters of its strategy from a frozen task's query.

        Raises:
            FieldError: if a value is not allowed; it is named.
        """
        try:
            return SENDINGS[self.strategy].read_task(fields, self.horizon)
        except FieldError:
            raise
        except ValueError as error:  # from the accountant; it names the value that is out of range
            raise FieldError(
                fields.table, "strategy", f"is {self.strategy!r} with other parameters: {error}"
            ) from error

    # On the device

    def parse(self, text: str) -> Value:
        """Return the state that a person typed: yes or no."""
        state = state_of(text)
        if state is None:
            raise AnswerError(f"the answer to {self.name} must be a state; type yes or no")
        return state

    def encode(self, answer: Value, random: Random) -> int:  # noqa: ARG002 - numbers need it
        """Return 1 for yes and 0 for no: true and false, or the words."""
        state = state_of(answer) if isinstance(answer, str) else answer
        if type(state).__module__ == "numpy" and type(state).__name__ in ("bool", "bool_"):
            state = bool(state)  # what tables of numpy and pandas have
        if not isinstance(state, bool):
            raise AnswerError(f"the answer to {self.name} is not a state; give true or false, or the words yes and no")
        return int(state)

    def distinct_answers(self) -> tuple[Value, ...]:
        """Return both states."""
        return (False, True)

    # Planning chooses a strategy over the whole horizon (`planning.longitudinal.plan`), not by these methods.

    @property
    def sizes(self) -> range:
        """The one size there is."""
        return range(2, 3)

    def sized(self, answers: int) -> Longitudinal:
        """Return the question itself."""
        if answers != self.answers:
            raise ValueError(f"a longitudinal question has 2 states, not {answers}")
        return self

    @property
    def planned_for(self) -> str:
        """What the expected error is of."""
        return "the count after a period"

    @property
    def extent(self) -> float:
        """1: a report adds at most 1 to the count."""
        return 1.0

    def headline(self) -> Vector:
        """Return the weights of the count of those in state yes."""
        import numpy as np

        return np.array([0.0, 1.0])

    def worst(self, variances: Vector) -> float:
        """Return the largest variance: a state is encoded without rounding."""
        return float(variances.max())

    # Results

    def estimates(self, debiased: Debiased) -> Estimates:  # noqa: ARG002 - one round's counts are not enough
        """Refuse: one round's counts are not enough for an estimate, see `Query.estimates_over`.

        Raises:
            ValueError: always.
        """
        raise ValueError(f"{self.name} is estimated from all rounds so far, not from one of them")

    def truth(self, answers: Iterable[Value]) -> Truth:
        """Count the states of one round; None means "no answer"."""
        states = [bool(state_of(answer) if isinstance(answer, str) else answer) for answer in answers]
        return {("count", None): float(sum(states)), ("answered", None): float(len(states))}


def _number_or_none(fields: Fields, key: str) -> float | None:
    return None if fields.get(key, None) is None else fields.number(key)
