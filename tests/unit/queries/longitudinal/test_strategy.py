"""The law of whole sequences, clipping, late joiners, missed rounds, erased memory."""

from __future__ import annotations

import itertools
import os
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from hubbub.accountant.mechanisms import TreeNodes
from hubbub.accountant.mechanisms.longitudinal import Horizon, Sampled, Vector
from hubbub.queries.errors import AnswerError, FieldError
from hubbub.queries.longitudinal.direct import SendingStates
from hubbub.queries.longitudinal.over_rounds import ERASED, Memory, RoundContext
from hubbub.queries.longitudinal.question import Longitudinal
from hubbub.queries.longitudinal.signs import SendingOneChange, SendingVector
from hubbub.queries.longitudinal.stream import Stream
from hubbub.queries.longitudinal.tree import SendingNodes
from hubbub.queries.query import Query

EVEN = 2**33
"""Odds of 2 to 1, as a strategy's weight."""


def asked(way: str, periods: int = 4, changes: int = 2) -> Query:
    horizon = Horizon(periods, changes)
    sendings = {
        "direct": SendingStates(2, 2**31, horizon),
        "vector": SendingVector(Vector(horizon, EVEN, 0), 100),
        "sampled": SendingOneChange(Sampled(horizon, EVEN), 100),
        "tree": SendingNodes(TreeNodes(periods, changes, 2**29, 2**28)),
    }
    return Query(Longitudinal("active", changes, way, steady_share=1.0, periods=periods), sendings[way])


WAYS = ("direct", "vector", "sampled", "tree")


def sent(query: Query, states: dict[int, bool | None]) -> tuple[list[int], Memory | None]:
    """The symbols of a device that answers these rounds, and what it keeps then."""
    memory, symbols = None, []
    for number, state in states.items():
        encoded = query.encode_at(state, RoundContext(number, memory), os.urandom)
        symbols.append(encoded.symbol)
        memory = encoded.memory
    return symbols, memory


@pytest.mark.parametrize("way", WAYS)
def test_a_frozen_query_reads_as_it_was_written(way: str) -> None:
    query = asked(way)
    assert Query.read("query[0]", query.content()) == query
    assert query.horizon == 4


@pytest.mark.parametrize("way", WAYS)
def test_every_report_has_the_same_length_whatever_the_data_and_the_level(way: str) -> None:
    query = asked(way)
    for states in itertools.product([False, True, None], repeat=4):
        for symbol in sent(query, dict(enumerate(states)))[0]:
            assert len(query.randomize(symbol, os.urandom)) == query.report_bytes == 4


@pytest.mark.parametrize("way", ["vector", "sampled"])
def test_a_symbol_says_the_level_that_was_drawn_once_and_a_sign(way: str) -> None:
    query, levels = asked(way), set()
    for _ in range(40):
        symbols, memory = sent(query, {0: True, 1: False, 2: True, 3: None})
        assert memory is not None
        assert {symbol // 2 for symbol in symbols} == {memory["level"]}
        levels.add(memory["level"])
    # One of three levels is missing with a chance of 3·(2/3)^40, below 1e-6.
    assert levels == {0, 1, 2}


def kept_of(way: str, level: int, drawn: dict[str, int]) -> Memory:
    """What a device has kept that drew this, before its first answer."""
    return {"base": 0, "level": level, "pending": 0, **Stream().content(), **drawn}


def law(query: Query, way: str, states: tuple[bool, ...], level: int) -> dict[tuple[int, ...], Fraction]:
    """The exact law of the signs at the ends of a level's nodes, by enumerating all that is drawn."""
    strategy: Any = query.randomizer.strategy  # type: ignore[attr-defined]
    found: Counter[tuple[int, ...]] = Counter()
    changes = strategy.horizon.changes
    if way == "vector":
        total = sum(strategy.weights)
        draws = [
            ({"minuses": bits, "used": 0}, Fraction(EVEN if bits.bit_count() <= strategy.minuses else 2**32, total))
            for bits in range(2**changes)
        ]
    else:
        draws = [({"kept": place}, Fraction(1, changes)) for place in range(1, changes + 1)]
    for drawn, mass in draws:
        for coins in itertools.product([0, 1], repeat=len(states)):
            # Every coin of the round is this one: fair, or, of a change, true where it is 0 with odds of 2 to 1.
            memory, signs, weight = kept_of(way, level, drawn), [], mass
            for number, state in enumerate(states):
                fair, memory, sign = step(query, state, number, memory, coins[number])
                weight *= Fraction(1, 2) if fair else (Fraction(2, 3) if coins[number] == 0 else Fraction(1, 3))
                if (number + 1) % 2**level == 0:
                    signs.append(sign)
            found[tuple(signs)] += weight  # type: ignore[assignment]
    return dict(found)  # type: ignore[arg-type]


def step(query: Query, state: bool, number: int, memory: Memory, coin: int) -> tuple[bool, Memory, int]:
    """One round in which whatever is drawn falls as `coin` says; return whether a fair coin was drawn."""
    drawn = []

    def random(count: int) -> bytes:
        drawn.append(count)
        # One byte is a fair sign, whose last bit counts; more are a draw below 3·2³², true if below 2·2³².
        return bytes([coin]) if count == 1 else (0 if coin == 0 else 2 * 2**32).to_bytes(count, "big")

    encoded = query.encode_at(state, RoundContext(number, memory), random)
    assert encoded.memory is not None
    # Nothing drawn is a sign that follows from the vector: both coins give it, so each counts for half.
    return (not drawn or drawn == [1]), encoded.memory, encoded.symbol % 2 * 2 - 1


@pytest.mark.parametrize("way", ["vector", "sampled"])
def test_whole_sequences_keep_the_stated_local_epsilon_and_reach_it(way: str) -> None:
    """Enumerated: no two streams' sequences differ by more than E = 2, at any level, and some do by as much."""
    query = asked(way)
    streams = [each for each in itertools.product([False, True], repeat=4) if flips(each) <= 2]
    worst = Fraction(1)
    for level in range(3):
        laws = [law(query, way, states, level) for states in streams]
        assert all(sum(each.values()) == 1 for each in laws)
        for signs in laws[0]:
            worst = max(worst, max(each[signs] for each in laws) / min(each[signs] for each in laws))
    stated = query.mechanism.epsilon_local
    assert float(worst) == pytest.approx(2.718281828459045**stated, rel=1e-9)
    assert worst <= 2


def flips(states: tuple[bool, ...]) -> int:
    return sum(one != other for one, other in itertools.pairwise((False, *states)))


@pytest.mark.parametrize("way", WAYS)
def test_more_changes_than_the_questions_are_clipped(way: str) -> None:
    memory = sent(asked(way, periods=8), dict(enumerate([True, False, True, False, True])))[1]
    assert memory is not None
    assert (memory["state"], memory["changes"]) == (0, 2)


@pytest.mark.parametrize("way", WAYS)
def test_no_answer_keeps_the_last_state_and_a_missed_round_too(way: str) -> None:
    memory = sent(asked(way, periods=8), {0: None, 2: True, 3: None, 6: None})[1]
    assert memory is not None
    assert (memory["state"], memory["changes"], memory["period"]) == (1, 1, 7)


def test_a_device_that_joins_late_tells_its_change_in_the_node_in_which_it_joined() -> None:
    query = asked("vector", periods=8)
    memory = kept_of("vector", 1, {"minuses": 0, "used": 0})
    # Level 1 ends in rounds 1, 3, 5, …; the first answer is in round 4, of the node that ends in round 5.
    for number, used in ((4, 0), (5, 1), (6, 1), (7, 1)):
        memory = query.encode_at(True, RoundContext(number, memory), os.urandom).memory or {}
        assert memory["used"] == used


@pytest.mark.parametrize("way", ["vector", "sampled"])
def test_a_change_in_a_node_whose_end_was_missed_is_told_in_no_other_node(way: str) -> None:
    query = asked(way, periods=8)
    memory = kept_of(way, 1, {"minuses": 0, "used": 0} if way == "vector" else {"kept": 1})
    memory = query.encode_at(True, RoundContext(0, memory), os.urandom).memory or {}
    # Round 1 is missed, with which the node of rounds 0 and 1 ends.
    for number in (2, 3):
        memory = query.encode_at(True, RoundContext(number, memory), os.urandom).memory or {}
    assert memory.get("used", 0) == 0
    assert memory["pending"] == 0


@pytest.mark.parametrize("way", WAYS)
def test_rounds_are_answered_in_their_order(way: str) -> None:
    memory = sent(asked(way), {2: True})[1]
    for earlier in (1, 2):
        with pytest.raises(AnswerError, match=f"round {earlier} comes too late: this device answered round 2"):
            asked(way).encode_at(True, RoundContext(earlier, memory), os.urandom)


@pytest.mark.parametrize("way", WAYS)
def test_a_device_that_erased_its_memory_draws_nothing_anew_and_sends_what_depends_on_nothing(way: str) -> None:
    query = asked(way)
    encoded = query.encode_at(True, RoundContext(3, ERASED), lambda count: bytes(count))
    assert encoded == query.encode_at(False, RoundContext(3, ERASED), lambda count: bytes(count))
    assert encoded.memory == ERASED


@pytest.mark.parametrize("way", ["vector", "sampled"])
def test_a_device_that_erased_its_memory_sends_every_level_and_sign(way: str) -> None:
    query = asked(way)
    found = {query.encode_at(True, RoundContext(3, ERASED), os.urandom).symbol for _ in range(600)}
    # A symbol is missing with a chance of 6·(5/6)^600, below 1e-46.
    assert found == set(range(query.symbols))


@pytest.mark.parametrize("answer", [1, "maybe", 0.0, ""])
def test_what_is_no_state_is_refused_without_repeating_it(answer: Any) -> None:
    with pytest.raises(AnswerError, match="give true or false, or the words yes and no"):
        asked("direct").encode_at(answer, RoundContext(0), os.urandom)


def test_a_state_of_numpy_is_a_state() -> None:
    question, yes, no = asked("direct").question, np.bool_(True), np.bool_(False)
    assert [question.encode(each, os.urandom) for each in (yes, no)] == [1, 0]


def test_states_are_typed_as_words() -> None:
    question = asked("direct").question
    assert [question.parse(word) for word in ("yes", "NO", " true ", "false")] == [True, False, True, False]
    with pytest.raises(AnswerError, match="type yes or no"):
        question.parse("often")


def test_a_truth_is_read_as_a_device_reads_it() -> None:
    question = asked("direct").question
    yes = ["True", "TRUE", "Yes", "y", "T", "On", "1", "1.0", " yes"]
    no = ["False", "No", "N", "f", "off", "0", "0.0"]
    assert [question.encode(word, os.urandom) for word in yes + no] == [1] * len(yes) + [0] * len(no)
    assert question.truth([*yes, *no, True, False, None])["count", None] == len(yes) + 1


@pytest.mark.parametrize(
    ("way", "change", "problem"),
    [
        ("direct", {"gamma": [0, 2**32]}, "gamma"),
        ("vector", {"odds": 2**33}, "odds"),
        ("vector", {"odds": "9" * 100}, "odds"),
        ("vector", {"odds": "5"}, "weight is 5"),
        ("vector", {"minuses": 2}, "minuses is 2"),
        ("vector", {"steady": 0}, "steady"),
        ("sampled", {"strategy": "oak"}, "strategy"),
        ("tree", {"gamma": [0, 2**32]}, "gamma"),
        ("tree", {"side": [2**31, 2**32]}, "side is 2147483648"),
        ("sampled", {"periods": 0}, "periods"),
        ("sampled", {"changes": 9}, "changes"),
        ("sampled", {"steady_share": 1.5}, "steady_share"),
        (
            "sampled",
            {"steady_share": None},
            "steady_share is missing, and strategy 'sampled' is certified by the people",
        ),
        ("vector", {"steady_share": None}, "steady_share is missing, and strategy 'vector' is certified by the people"),
    ],
)
def test_a_frozen_query_with_other_values_is_refused_by_name(way: str, change: dict[str, Any], problem: str) -> None:
    with pytest.raises(FieldError, match=problem):
        Query.read("query[0]", asked(way).content() | change)


@pytest.mark.parametrize("way", WAYS)
def test_only_who_counts_on_steady_people_needs_to_know_them(way: str) -> None:
    sending: Any = asked(way).randomizer
    assert sending.counts_on_steady == (way in {"vector", "sampled"})
    if sending.counts_on_steady:
        with pytest.raises(FieldError, match="steady_share is missing"):
            sending.check_steady_people("query[0]", 10**6, None, 1e-6)
    else:
        content = asked(way).content() | {"steady_share": None}
        assert Query.read("query[0]", content).content() == content


def test_who_is_steady_is_part_of_the_law() -> None:
    query = asked("vector")
    sending: Any = query.randomizer
    assert sending.mechanism.steady == 100
    assert replace(sending, steady=99).mechanism != sending.mechanism


def truthful(count: int) -> bytes:
    """Draws that fall above γ, so that a node's value is sent as it is."""
    return b"\xff" * count


def told(query: Query, states: dict[int, bool | None]) -> dict[int, int]:
    """The node values that a device sends, by round, where it always tells the truth."""
    memory, values = None, {}
    lowest = query.randomizer.strategy.node.values[0]  # type: ignore[attr-defined]
    for number, state in states.items():
        encoded = query.encode_at(state, RoundContext(number, memory), truthful)
        values[number], memory = encoded.symbol + lowest, encoded.memory
    return values


def count_of(values: dict[int, int], number: int) -> int:
    """The sum of the nodes that make up the rounds up to this one; a missed one counts as nothing."""
    period, total = number + 1, 0
    while period:
        total, period = total + values.get(period - 1, 0), period & (period - 1)
    return total


@pytest.mark.parametrize("changes", [1, 2, 3])
def test_a_trees_nodes_add_up_to_the_state_after_every_round(changes: int) -> None:
    for states in itertools.product([False, True], repeat=7):
        if flips(states) <= changes:
            values = told(asked("tree", 7, changes), dict(enumerate(states)))
            assert [count_of(values, number) for number in range(7)] == [int(state) for state in states]


def test_a_node_of_the_tree_whose_end_was_missed_is_short_in_the_counts_that_use_it_alone() -> None:
    query = asked("tree", periods=8)
    # Round 3, with which the node of rounds 0 to 3 ends, is missed; the change was in round 1.
    values = told(query, dict.fromkeys((0,), False) | dict.fromkeys((1, 2, 4, 5, 6, 7), True))
    assert [count_of(values, number) for number in range(8)] == [0, 1, 1, 0, 0, 0, 0, 1]


def test_who_joins_late_is_counted_from_the_node_in_which_they_joined() -> None:
    values = told(asked("tree", periods=8), dict.fromkeys((4, 5, 6, 7), True))
    assert [count_of(values, number) for number in range(4, 8)] == [1, 1, 1, 1]
    # Joined in round 4 and missing round 5, with which that node ends: short until a longer node ends.
    values = told(asked("tree", periods=8), dict.fromkeys((4, 6, 7), True))
    assert [count_of(values, number) for number in (4, 6, 7)] == [1, 0, 1]


def test_what_a_device_sends_of_a_node_has_the_certified_law() -> None:
    """Enumerated: the two draws of a value decide it, and each is below its threshold with the law's probability."""
    mechanism = TreeNodes(4, 2, 2**29, 2**28)
    for before, after in ((0, 0), (0, 1), (1, 0)):
        memory = {"bases": before, "changes": before, "period": 2, "state": before}
        seen: Counter[int] = Counter()
        for truth, place in itertools.product(range(8), range(16)):
            draws = iter((truth * 2**29, place * 2**28))
            query = Query(Longitudinal("active", 2, "tree", periods=4), SendingNodes(mechanism))
            encoded = query.encode_at(
                bool(after), RoundContext(2, memory), lambda count, at=draws: next(at).to_bytes(count, "big")
            )
            seen[encoded.symbol] += 1
        row = mechanism.node.law[1 + after - before]
        assert [Fraction(seen[symbol], 128) for symbol in range(3)] == list(row)
