"""Questions of `seconds.py` that commands ask: what `account calibrate`, `account plot` and `simulate` compute."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import pyarrow as pa

from hubbub.accountant.calibration.calibrate import calibrate
from hubbub.cli.mechanisms.arguments import Description
from hubbub.cli.plots.plan import evaluate
from hubbub.cli.plots.sweep import SweepQuestion, sweep
from hubbub.cli.plots.variables import Range, Variable
from hubbub.planning.comparison import PrivacyTarget, compare_randomizers, counted_questions, question_for
from hubbub.planning.plan import plan
from hubbub.planning.simulate.dataset import Dataset
from hubbub.planning.simulate.simulate import simulate
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.task import Draft, Privacy
from hubbub.queries.design import Design
from hubbub.queries.questions.distribution import Distribution
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.questions.number import Number
from hubbub.queries.questions.question import Question
from support.samples import FEW, START

REPORTS = (20, 300, 10**4, 10**6)
EPSILONS, DELTAS, CAPS = (0.1, 1.0, 4.0), (1e-6, 1e-6, 1e-10), (None, 8.0)

TASKS = (
    ("histogram", "krr"),
    ("histogram", "unary"),
    ("histogram", "hashed"),
    ("histogram", "auto"),
    ("number", "krr"),
    ("number", "unary"),
    ("digits", "krr"),
    ("distribution", "krr"),
)
"""Kinds of questions that are simulated, with their randomizers."""


class Timed(Protocol):
    """A question whose seconds are counted."""

    @property
    def what(self) -> str:
        """What is asked."""

    def ask(self) -> object:
        """Return its answer."""


@dataclass(frozen=True)
class Calibrated:
    """What `account calibrate` asks; without a randomizer all kinds are compared."""

    query: str
    randomizer: str | None
    categories: int | None
    epsilon: float
    delta: float
    reports: int
    cap: float | None
    dummies: int
    what: str = "calibrate"

    def ask(self) -> object:
        """Choose a randomizer."""
        if self.randomizer is None:
            question, listed = counted_questions(self.query, self.categories, False, 0.01)
            aim = PrivacyTarget(self.epsilon, self.delta, self.reports, self.cap)
            return compare_randomizers(question, aim, self.dummies, listed)
        design = Design(question_for(self.query, self.categories, False, self.randomizer))
        cap, dummies = self.cap, self.dummies
        return calibrate([design], self.epsilon, self.delta, self.reports, epsilon_local_cap=cap, dummies=dummies)


@dataclass(frozen=True)
class Plotted:
    """One point of all curves that `account plot` draws; its bar moves on with each curve."""

    said: Description
    reports: int
    delta: float
    rounds: int
    what: str = "plot"

    def ask(self) -> object:
        """Evaluate every bound."""
        question = SweepQuestion(self.said, None, self.delta, self.rounds)
        along = Range(Variable.REPORTS, self.reports, self.reports + 1, 2)
        return evaluate(sweep(question, along), lambda: None)


@dataclass(frozen=True)
class Simulated:
    """What `simulate` asks: a plan, and a round of so many devices."""

    kind: str
    randomizer: str
    devices: int
    epsilon: float
    delta: float
    what: str = "simulate"

    def ask(self) -> object:
        """Plan the task and run it."""
        question, values = _asked(self.kind, self.randomizer)
        privacy = Privacy(self.epsilon, self.delta, 40.0 if self.kind == "digits" else 8.0, large_delta=FEW)
        draft = Draft("usage", Schedule(START, 3600, 60, 3), self.devices, privacy, (question,))
        # A sum by digits is offered beside noise alone.
        planned = plan(replace(draft, noise="always") if self.kind == "digits" else draft)
        answers = [values[row % len(values)] for row in range(self.devices)]
        return simulate(planned, Dataset("usage", (question,), pa.table({"q": answers})), lambda _: None)


def _asked(kind: str, randomizer: str) -> tuple[Question, list[str] | list[float]]:
    if kind == "histogram":
        names = tuple(f"c{number}" for number in range(40))
        return Histogram("q", names, randomizer=randomizer), list(names)
    if kind == "number":
        return Number("q", 0.0, 40.0, randomizer=randomizer), [1.0, 7.5, 33.0]
    if kind == "digits":
        return Number("q", 0.0, 40.0, digits=8), [1.0, 7.5, 33.0]
    return Distribution("q", tuple(map(float, range(12))), randomizer=randomizer), [0.5, 3.5, 9.0]


def calibrated(draw: random.Random) -> Timed:
    """Draw a question to calibrate."""
    query = draw.choice(("histogram", "histogram", "sum", "text"))
    if query == "text":
        randomizer, categories = None, draw.choice((None, 10**6))
    elif query == "sum":
        randomizer, categories = draw.choice(("krr", "unary")), None
    else:
        randomizer, categories = draw.choice(("krr", "unary", "hashed", None)), draw.choice((2, 3, 16, 1000))
    epsilon, delta, reports = (draw.choice(each) for each in (EPSILONS, DELTAS, REPORTS))
    return Calibrated(
        query, randomizer, categories, epsilon, delta, int(reports), draw.choice(CAPS), draw.choice((0, 100))
    )


def plotted(draw: random.Random) -> Timed:
    """Draw a point to plot."""
    local = draw.choice((0.1, 1.0, 4.0))
    said = draw.choice(
        (
            Description("krr", 2, local),
            Description("krr", 16, local),
            Description("rappor", 8, local),
            Description("generic", local_epsilon=local),
            Description("common", local_epsilon=local),
            Description("laplace", local_epsilon=local),
            Description("gaussian", sigma=1 / local),
            Description("hashed", cells=256, local_epsilon=local),
            Description("krr", 16, local, noise="geometric:0.6065:27"),
        )
    )
    rounds = 1 if said.mechanism == "gaussian" else draw.choice((1, 1, 30))
    return Plotted(said, draw.choice((100, 10**4)), draw.choice(DELTAS), rounds)


def simulated(draw: random.Random) -> Timed:
    """Draw a task to simulate."""
    kind, randomizer = draw.choice(TASKS)
    return Simulated(kind, randomizer, draw.choice((300, 3000, 20_000)), draw.choice((1.0, 4.0)), 1e-6)


COMMANDS: Mapping[str, Callable[[random.Random], Timed]] = {
    "calibrate": calibrated,
    "plot": plotted,
    "simulate": simulated,
}
"""How a question of each command is drawn."""
