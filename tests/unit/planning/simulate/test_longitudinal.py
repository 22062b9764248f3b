"""What is run has the law that is certified, and a strategy that is not as promised is marked."""

from __future__ import annotations

import itertools
import math
import random as pseudo
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from hubbub.accountant.mechanisms.longitudinal import STRATEGIES as KNOWN
from hubbub.accountant.mechanisms.longitudinal import AnyStrategy, Direct, Horizon, Node, Sampled, Tree, Vector
from hubbub.accountant.mechanisms.longitudinal.signs import weight_of
from hubbub.planning.simulate.compare import Contender
from hubbub.planning.simulate.longitudinal import STRATEGY_SIMULATIONS, States, Streams, node_values, planned, run
from hubbub.planning.simulate.longitudinal_data import read_long, read_wide
from hubbub.protos.errors import HubbubError
from hubbub.protos.task.task import Privacy
from hubbub.queries.longitudinal.strategies import SENDINGS
from support.boolean_streams import node_values as reference_values
from support.boolean_streams import sampled_law, streams, vector_law

HORIZON = Horizon(6, 3)
STRATEGIES: dict[str, AnyStrategy] = {
    "direct": Direct(HORIZON, 2**31),
    "tree": Tree(HORIZON, Node(2**31, 2**30)),
    "vector": Vector.best(HORIZON, 2.0),
    "sampled": Sampled(HORIZON, weight_of(2.0)),
}
STATES = (0, 1, 1, 0, 0, 1)


def seeded(seed: int) -> Callable[[int], bytes]:
    return pseudo.Random(seed).randbytes


def moments(strategy: AnyStrategy, states: tuple[int, ...]) -> dict[tuple[int, int], tuple[float, float]]:
    """Mean and variance of what one device of that stream adds to each node's sum, by enumerating its exact law."""
    if isinstance(strategy, Direct):
        chances = [strategy.mechanism.law(state)[1] for state in states]
        return {(0, place): (float(p), float(p * (1 - p))) for place, p in enumerate(chances, 1)}
    found = {}
    for level in range(HORIZON.levels):
        values = reference_values(states, level)
        if isinstance(strategy, Tree):
            node = strategy.node
            for number, value in list(enumerate(values, 1))[::2]:
                law = dict(zip(node.values, node.law[node.values.index(value)], strict=True))
                found[level, number] = _moments(law, Fraction(1))
            continue
        law_of = vector_law if isinstance(strategy, Vector) else sampled_law
        whole = law_of(strategy, states, level)  # type: ignore[arg-type]
        for number in range(1, len(values) + 1):
            law = {sign: sum(mass for sent, mass in whole.items() if sent[number - 1] == sign) for sign in (-1, 1)}
            found[level, number] = _moments(law, Fraction(1, HORIZON.levels))
    return found


def _moments(law: dict[int, Fraction], share: Fraction) -> tuple[float, float]:
    mean = share * sum(sent * mass for sent, mass in law.items())
    return float(mean), float(share * sum(sent**2 * mass for sent, mass in law.items()) - mean**2)


def distances(sent_by: AnyStrategy, expected: AnyStrategy) -> list[float]:
    """By how many standard deviations the sums of 30,000 devices are off, at each node."""
    devices = 30_000
    states = np.tile(np.array(STATES, dtype=np.int8), (devices, 1))
    totals = STRATEGY_SIMULATIONS[type(sent_by)].send(sent_by, states, seeded(8), np.random.default_rng(9))
    law = moments(expected, STATES)
    assert set(totals) == set(law)
    return [abs(totals[node] - devices * mean) / math.sqrt(devices * var) for node, (mean, var) in law.items()]


def test_every_strategy_can_be_planned_and_run() -> None:
    assert set(KNOWN) == set(SENDINGS) == set(STRATEGIES)
    assert set(KNOWN.values()) == set(STRATEGY_SIMULATIONS)


@pytest.mark.parametrize("kind", STRATEGIES)
def test_what_is_sent_has_the_certified_law(kind: str) -> None:
    """Sums at up to 10 nodes: of a true law all stay within 4.5 standard deviations but for 7e-5 of seeds."""
    strategy = STRATEGIES[kind]
    assert max(distances(strategy, strategy)) < 4.5


WRONG: dict[str, AnyStrategy] = {
    "direct": Direct(HORIZON, 2**31 - 2**28),
    "tree": Tree(HORIZON, Node(2**31 - 2**29, 2**30)),
    "vector": Vector.best(HORIZON, 2.4),
    "sampled": Sampled(HORIZON, weight_of(3.0)),
}


@pytest.mark.parametrize("kind", STRATEGIES)
def test_another_law_is_told_from_it(kind: str) -> None:
    assert max(distances(WRONG[kind], STRATEGIES[kind])) > 4.5


def some_streams(devices: int) -> Streams:
    draws = np.random.default_rng(4)
    states = (np.cumsum(draws.random((devices, HORIZON.periods)) < 0.2, axis=1) % 2).astype(np.int8)
    return Streams.of(states, HORIZON.changes)


@pytest.mark.parametrize("kind", STRATEGIES)
def test_each_strategy_does_what_it_promises(kind: str) -> None:
    told: list[int] = []
    found = run(Contender(kind, 400), STRATEGIES[kind], some_streams(500), 30, told.append, seeded(2))
    (count,) = found.seen
    assert (count.statistic, count.verdict, sum(told)) == ("count", "agrees", 12_000)


def test_a_strategy_that_promises_too_much_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Direct.variance
    monkeypatch.setattr(Direct, "variance", lambda *asked: honest(*asked) / 4)
    (count,) = run(
        Contender("direct", 400), STRATEGIES["direct"], some_streams(500), 40, lambda _: None, seeded(2)
    ).seen
    assert count.verdict == "larger"


def test_strategies_are_planned_for_all_periods_together_or_say_why_not() -> None:
    contender, strategy = planned("vector", HORIZON, 1000, Privacy(epsilon=1.0, delta=1e-6), steady_share=0.9)
    assert isinstance(strategy, Vector)
    unstated, nothing = planned("vector", HORIZON, 1000, Privacy(epsilon=1.0, delta=1e-6))
    assert nothing is None
    assert "steady_share in a task's query" in str(unstated.why_not)
    assert contender.epsilon_upper is not None
    assert contender.epsilon_upper <= 1.0
    assert set(contender.parameters) == {"steady", "odds", "minuses"}
    refused, nothing = planned("tree", HORIZON, 10, Privacy(epsilon=1.0, delta=1e-30))
    assert (nothing, refused.query) == (None, None)
    assert refused.why_not


def test_streams_are_clipped_as_devices_clip_them() -> None:
    every = np.array(list(itertools.product((0, 1), repeat=6)), dtype=np.int8)
    found = Streams.of(every, 2)
    for given, kept in zip(every.tolist(), found.states.tolist(), strict=True):
        state, used, expected = 0, 0, []
        for each in given:
            if each != state and used < 2:
                state, used = each, used + 1
            expected.append(state)
        assert kept == expected
    assert found.clipped == sum(sum(a != b for a, b in itertools.pairwise((0, *row))) > 2 for row in every.tolist())


def test_node_values_are_those_of_the_definition() -> None:
    for states in streams(HORIZON):
        for level in range(HORIZON.levels):
            values = node_values(np.array([states], dtype=np.int8), level)
            assert values.tolist() == [reference_values(states, level)]


# Reading


def written(folder: Path, *rows: str) -> Path:
    path = folder / "states.csv"
    path.write_text("\n".join(rows) + "\n")
    return path


EXPECTED = [[0, 1, 1], [1, 1, 0], [0, 0, 0]]


def test_a_column_for_each_period_is_read_and_carried_over(tmp_path: Path) -> None:
    path = written(tmp_path, "a,b,c", "no,yes,", "TRUE,,0", ",,no")
    assert read_wide(path, ["a", "b", "c"]).tolist() == EXPECTED


def test_a_row_for_each_device_and_period_is_read_in_their_order(tmp_path: Path) -> None:
    rows = ("who,when,on", "y,10,0", "x,9,1", "y,9,1", "x,2,0", "y,2,1", "z,10,no")
    states: States = read_long(written(tmp_path, *rows), "who", "when", "on")
    assert states.tolist() == EXPECTED


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (
            ("who,when,on", "x,1,maybe"),
            "line 2 of .*, column 'on', is 'maybe'; write yes or no",
        ),
        (("who,when,on", "x,1,NA"), "if there is no news; or, if it means no answer, add --missing NA$"),
        (("who,when,on", "x,1,1", "x,1,0"), "a 'who' has two rows for one 'when'; keep one of them"),
        (("who,when,on", "x,,1"), "column 'when' has 1 empty fields"),
        (("who,on", "x,1"), "has no column 'when'; its columns are who, on"),
        (("who,when,on",), "has no rows; give one for each device and period"),
    ],
)
def test_a_table_that_cannot_be_read_over_time_says_why(tmp_path: Path, rows: tuple[str, ...], says: str) -> None:
    with pytest.raises(HubbubError, match=says):
        read_long(written(tmp_path, *rows), "who", "when", "on")


def test_what_was_not_planned_is_left_out() -> None:
    contender = replace(Contender("direct", 10), why_not="no")
    assert run(contender, None, some_streams(10), 3, lambda _: None, seeded(1)).seen == ()
