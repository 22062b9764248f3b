"""Exact, never below the truth, kept by all who share the file, and refused with the reason."""

from __future__ import annotations

import math
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.accountant.mechanisms.longitudinal import Horizon, Vector
from hubbub.client import Device, Fleet, OverLimit, PrivacyLimits, Recorder, StateError, UsageError
from hubbub.client.privacy.ledger import (
    PAST,
    Account,
    AnswerCost,
    Charges,
    ProvenLoss,
    TaskCost,
    check_limits,
    local_cost,
    rounded_up,
)
from hubbub.client.privacy.report import budget_of
from hubbub.client.state.budget import accounts_of
from hubbub.client.state.rounds import Drawn, RoundRef
from hubbub.client.state.store import State
from hubbub.protos.messages import Submission
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.task import Privacy, Task
from hubbub.queries.longitudinal.direct import SendingStates
from hubbub.queries.longitudinal.question import Longitudinal
from hubbub.queries.longitudinal.signs import SendingVector
from hubbub.queries.query import Query
from support.changed_stores import by_hand
from support.charges import BILL, answer_cost
from support.fake_shuffler import Clock, FakeShuffler
from support.samples import START, Parties, sample_task, signed

ANSWERS: dict[str, Any] = {"carrier": "UA", "delay": 12.5}
DAY = 86_400
NOBODY = "127.0.0.1:1"
OVER_AT = 1000.0
TASK_ID = b"t" * 32
OTHER_ID = b"u" * 32

Make = Callable[..., Device]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.sqlite"


@pytest.fixture
def state(path: Path) -> Iterator[State]:
    state = State(path)
    yield state
    state.close()


def drawn() -> Drawn:
    return Drawn(os.urandom(16), b"reports")


def each_round(task: Task) -> float:
    return rounded_up(local_cost(task, 0))


def promising_one(parties: Parties) -> Task:
    """The sample task, but promising ε = 1 for a round, which is below its local ε."""
    return sample_task(parties, privacy=Privacy(epsilon=1.0, delta=0.01, epsilon_local=20.0))


# A device within its limits


def offline(device: Make, **changes: Any) -> Device:
    return device(shuffler=NOBODY, **changes)


async def test_without_limits_everything_is_counted_and_nothing_refused(
    device: Make, parties: Parties, clock: Clock
) -> None:
    task = promising_one(parties)
    one = offline(device, task=signed(task, parties).encode())
    for number in range(3):
        clock.now = START + 3600.0 * number
        assert one.keep(ANSWERS)
        assert not one.keep(ANSWERS)
    budget = one.budget()
    assert (budget.day, budget.frees_up, budget.left) == (START, START + DAY, {})
    assert budget.today.epsilon_local == rounded_up(3 * local_cost(task, 0))
    assert (budget.today.rounds, budget.today.epsilon, budget.today.delta) == (3, 3.0, rounded_up(3 * Fraction(0.01)))
    (only,) = budget.tasks
    assert (only.task, only.task_id, only.total, only.today) == (task.name, task.id.hex(), budget.today, budget.today)


async def test_a_refusal_explains_itself_and_leaves_nothing_behind(device: Make, clock: Clock, task: Task) -> None:
    limit = 1.5 * each_round(task)
    one = offline(device, limits=PrivacyLimits(epsilon_local_per_day=limit))
    assert one.keep(ANSWERS)
    before = one.budget()
    assert before.left["epsilon_local_per_day"] == pytest.approx(0.5 * each_round(task))
    clock.now += 3600

    def exhausted(count: int) -> bytes:
        raise AssertionError(f"{count} bytes were drawn")

    with pytest.raises(OverLimit) as refused:
        offline(device, limits=PrivacyLimits(epsilon_local_per_day=limit), random=exhausted).keep(ANSWERS)
    spent = f"{each_round(task):.9g}"
    assert str(refused.value) == (
        f"round 1 of task flights is not answered: {spent} is spent today (UTC), on all tasks (flights {spent}), and "
        f"the round adds {spent} of local ε, above the limit epsilon_local_per_day = {limit:.9g}; it frees up at "
        "2026-01-02T00:00:00Z: answer then, if the round is still on, or raise the limit"
    )
    error = refused.value
    assert (error.limit, error.value, error.frees_up) == ("epsilon_local_per_day", limit, START + DAY)
    assert (error.spent, error.cost) == (each_round(task), each_round(task))
    assert (one.budget(), one.status().waiting) == (before, (0,))
    # Nor did the round begin in the file: its keys can still be pinned, and a device without limits may answer it.
    assert offline(device).keep(ANSWERS)


async def test_a_day_frees_up_at_midnight_and_not_when_the_clock_is_set_back(
    device: Make, settings: dict[str, Any], parties: Parties, clock: Clock
) -> None:
    task = sample_task(parties, schedule=Schedule(START, length=DAY // 2, grace=60, rounds=8))
    document = signed(task, parties).encode()
    one = offline(device, task=document, limits=PrivacyLimits(epsilon_local_per_day=1.5 * each_round(task)))
    clock.now = START + DAY
    assert one.keep(ANSWERS)
    for now in (START + DAY * 1.5, START + DAY - 1.0):
        clock.now = now
        with pytest.raises(OverLimit, match="it frees up at 2026-01-03T"):
            one.keep(ANSWERS)
    clock.now = START + 2.0 * DAY
    assert one.keep(ANSWERS)
    assert one.budget().today.rounds == 1
    assert [each.total.rounds for each in one.budget().tasks] == [2]


async def test_a_day_counts_all_tasks_and_a_task_all_its_days(
    device: Make, parties: Parties, clock: Clock, task: Task
) -> None:
    other = sample_task(parties, name="crashes", schedule=Schedule(START, length=DAY, grace=60, rounds=9))
    document, each = signed(other, parties).encode(), each_round(task)
    assert offline(device).keep(ANSWERS)
    daily = offline(device, task=document, limits=PrivacyLimits(epsilon_local_per_day=1.5 * each))
    with pytest.raises(OverLimit, match=r"on all tasks \(flights"):
        daily.keep(ANSWERS)
    of_task = offline(device, task=document, limits=PrivacyLimits(epsilon_local_per_task=2.5 * each))
    assert of_task.keep(ANSWERS)
    clock.now += DAY
    assert of_task.keep(ANSWERS)
    clock.now += DAY
    with pytest.raises(OverLimit, match="a task's spending never frees up: raise the limit, or leave") as refused:
        of_task.keep(ANSWERS)
    assert refused.value.frees_up is None
    assert [(one.task, one.total.rounds) for one in sorted(of_task.budget().tasks, key=lambda one: one.task or "")] == [
        ("crashes", 2),
        ("flights", 1),
    ]


async def test_a_round_that_alone_is_above_a_limit_is_told_as_that(device: Make, parties: Parties) -> None:
    document = signed(promising_one(parties), parties).encode()
    with pytest.raises(OverLimit, match="the round alone is above it, on any day: raise the") as refused:
        offline(device, task=document, limits=PrivacyLimits(epsilon_per_day=0.5)).keep(ANSWERS)
    assert (refused.value.spent, refused.value.cost) == (0.0, 1.0)


async def test_a_limit_that_is_met_exactly_is_kept(device: Make, parties: Parties, clock: Clock) -> None:
    document = signed(promising_one(parties), parties).encode()
    one = offline(device, task=document, limits=PrivacyLimits(epsilon_per_task=3.0))
    for number in range(3):
        clock.now = START + 3600.0 * number
        assert one.keep(ANSWERS)


async def test_neither_wiping_nor_opting_out_nor_forgetting_gives_anything_back(
    device: Make, clock: Clock, task: Task
) -> None:
    one = offline(device)
    one.keep(ANSWERS)
    before = one.budget()
    one.wipe()
    one.opt_out()
    one.opt_in()
    one._state.forget(1e12)
    assert one.budget() == before


@pytest.mark.parametrize("value", ["5", True, -1.0, float("nan")])
def test_a_limit_that_is_none_is_named(value: Any) -> None:
    with pytest.raises(UsageError, match=r"limit epsilon_per_day is .* give a number, 0 or more"):
        PrivacyLimits(epsilon_per_day=value)


async def test_limits_of_another_type_are_named(device: Make) -> None:
    with pytest.raises(UsageError, match=r"limits is of type float; give PrivacyLimits\(…\), or None"):
        device(limits=8.0)


async def test_a_fleet_refuses_each_device_for_itself(fleet: Callable[..., Fleet], clock: Clock, task: Task) -> None:
    one = fleet(limits=PrivacyLimits(epsilon_local_per_day=1.5 * each_round(task)))
    assert (await one.submit_many([("a", ANSWERS)])).accepted == 1
    clock.now += 3600
    summary = await one.submit_many([("a", ANSWERS), ("b", ANSWERS), ("a", ANSWERS)])
    assert (summary.accepted, summary.refused) == (1, {"over_limit": 2})
    assert "round 1 of task flights is not answered" in summary.messages["over_limit"]
    assert [one.budget(name).today.rounds for name in ("a", "b", "c")] == [1, 1, 0]


async def test_a_recorder_counts_what_is_over_a_limit_and_tells_it_once(device: Make, task: Task) -> None:
    told: list[Exception] = []
    one = offline(device, limits=PrivacyLimits(epsilon_local_per_day=0.5 * each_round(task)))
    recorder = Recorder(one, exit_seconds=0.0, on_error=told.append)
    for _ in range(3):
        recorder.record(ANSWERS)
    recorder.close()
    assert (recorder.counts.calls, recorder.counts.over_limit) == (3, 3)
    assert [type(error) for error in told] == [OverLimit]


# What is charged


def spent(state: State, device: str = "a", day: int = 0, task_id: bytes = TASK_ID) -> tuple[int, float]:
    today = budget_of(state.accounts(device), task_id, day, PrivacyLimits()).today
    return today.rounds, today.epsilon_local


def test_reports_and_their_charge_are_on_disk_together_or_not_at_all(path: Path) -> None:
    """At every statement of the transaction once with an error: a kill there leaves what a rollback leaves."""
    outcomes = set()
    for place in range(40):
        breaking = _breaking(place)
        file = path.with_name(f"{place}.sqlite")
        with closing(State(file)) as first:
            first.keep_reports(RoundRef(OTHER_ID, 0), "a", drawn(), OVER_AT, answer_cost())
        with closing(State(file, connection=breaking)) as state:
            try:
                state.keep_reports(RoundRef(TASK_ID, 0), "a", drawn(), OVER_AT, answer_cost())
            except StateError as error:
                assert "broken" in str(error)  # noqa: PT017 - the last places do not break any more
        with closing(State(file)) as state:
            kept = bool(state.find(RoundRef(TASK_ID, 0), ["a"]))
            assert spent(state)[0] == 1 + kept
            outcomes.add(kept)
        if kept:
            break
    assert outcomes == {True, False}


def _breaking(place: int) -> type[sqlite3.Connection]:
    """A connection whose statement of that number, counted from the first that writes to the tables, fails."""

    class Breaking(sqlite3.Connection):
        left = place

        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            self._count(sql)
            return super().execute(sql, *values)

        def executemany(self, sql: str, *values: Any) -> sqlite3.Cursor:
            self._count(sql)
            return super().executemany(sql, *values)

        def _count(self, sql: str) -> None:
            if not self.in_transaction or sql == "ROLLBACK":
                return
            if self.left == 0:
                self.left = -1
                raise OSError("broken")
            self.left -= 1

    return Breaking


@pytest.mark.parametrize("attempt", range(3))
def test_connections_that_share_a_file_stay_within_the_limit_together(path: Path, attempt: int) -> None:
    limits, start = PrivacyLimits(epsilon_local_per_day=5.0), threading.Barrier(8)
    kept, refused = [], []

    def work(number: int) -> None:
        with closing(State(path)) as state:
            start.wait()
            try:
                state.keep_reports(RoundRef(TASK_ID, number), "a", drawn(), OVER_AT, answer_cost("3/2", limits=limits))
                kept.append(number)
            except OverLimit:
                refused.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(kept), len(refused)) == (3, 5)
    with closing(State(path)) as state:
        assert spent(state) == (3, 4.5)
        assert state.waiting(TASK_ID, "a") == sorted(kept)


def test_a_limit_is_looked_at_again_where_a_fleet_stores(state: State, task: Task, parties: Parties) -> None:
    of, fake = RoundRef(task.id, 0), FakeShuffler(task, parties)
    state.pin(of, fake.keys(0)[2], OVER_AT)
    limited = answer_cost("3/2", limits=PrivacyLimits(epsilon_local_per_task=2.0))
    state.keep_reports(RoundRef(task.id, 1), "a", drawn(), OVER_AT, BILL)
    made = {name: Submission(os.urandom(16), os.urandom(152)) for name in ("a", "b")}
    kept, refused = state.keep(of, made, limited)
    assert (set(kept), set(refused)) == ({"b"}, {"a"})
    assert set(state.find(of, ["a", "b"])) == {"b"}
    again, refused = state.keep(of, made, limited)
    assert (again, set(refused)) == (kept, {"a"})
    assert spent(state, "b", task_id=task.id)[0] == 1


def test_a_query_says_what_a_round_costs_after_so_many(state: State) -> None:
    """What is memorized over rounds costs its horizon with the first."""
    horizon = answer_cost("4", "0", limits=PrivacyLimits(epsilon_local_per_task=4.0))
    for number in range(5):
        state.keep_reports(RoundRef(TASK_ID, number), "a", drawn(), OVER_AT, horizon)
    assert spent(state) == (5, 4.0)
    with pytest.raises(OverLimit):
        state.keep_reports(RoundRef(TASK_ID, 5), "b", drawn(), OVER_AT, answer_cost("9/2", limits=horizon.limits))


def test_days_before_yesterday_become_one_row(state: State, path: Path) -> None:
    for day in range(30):
        state.keep_reports(RoundRef(TASK_ID, day), "a", drawn(), OVER_AT, answer_cost(day=day))
    state.close()
    with closing(by_hand(path)) as connection:
        rows = connection.execute("SELECT day, rounds, first, last FROM spent ORDER BY day").fetchall()
        (account,) = accounts_of(connection, ["a"])["a"]
    assert rows == [(PAST, 28, 0, 27), (28, 1, 28, 28), (29, 1, 29, 29)]
    assert account.local == 45


def test_amounts_that_are_damaged_are_named(state: State, path: Path) -> None:
    state.keep_reports(RoundRef(TASK_ID, 0), "a", drawn(), OVER_AT, BILL)
    state.close()
    for change in ("UPDATE spent SET local = '1/0'", "UPDATE spent SET local = 'x'", "UPDATE spent SET rounds = 'x'"):
        with closing(by_hand(path, isolation_level=None)) as connection:
            connection.execute(change)
        with pytest.raises(StateError, match="amounts that cannot be read; it is damaged"):
            spent(state)
        state.close()


# Sums, by another route


def account(
    rounds: set[int], epsilon: Fraction, proven: ProvenLoss | None = None, exceeded: dict[int, Fraction] | None = None
) -> Account:
    """An account as the tables fold it: of many rounds only number, first and last are left."""
    task_cost = TaskCost("t", float(epsilon), 1e-6, None)
    charges = (Charges(0, Fraction(10**6), len(rounds), min(rounds), max(rounds)),)
    return Account(TASK_ID, task_cost, charges, proven, exceeded or {})


@given(
    rounds=st.sets(st.integers(0, 20), min_size=1),
    history=st.sets(st.integers(0, 20), min_size=1),
    stated=st.integers(1, 400).map(lambda number: Fraction(number, 16)),
    above=st.dictionaries(st.integers(0, 20), st.integers(1, 40).map(lambda number: Fraction(number, 8)), max_size=4),
)
def test_a_certificate_never_lowers_a_number_below_what_it_proves(
    rounds: set[int], history: set[int], stated: Fraction, above: dict[int, Fraction]
) -> None:
    """Against the sums of somebody who knows exactly which rounds were answered, which the file does not."""
    epsilon = Fraction(2)
    history -= set(above)
    if not history:
        return
    exceeded = {number: epsilon + more for number, more in above.items()}
    proven = ProvenLoss(max(history), max(history) + 1 - len(history), stated)
    cost = {number: exceeded.get(number, epsilon) for number in range(21)}
    by_sum = sum((cost[number] for number in rounds), Fraction(0))
    by_certificate = stated + sum((cost[number] for number in rounds - history), Fraction(0))
    found = account(rounds, epsilon, proven, exceeded).central
    assert found is not None
    assert found[0] >= min(by_sum, by_certificate)
    assert found[1] <= len(rounds) * Fraction(1e-6)
    without = account(rounds, epsilon, None, exceeded).central
    assert without is not None
    assert found[0] <= without[0]


@given(prices=st.lists(st.floats(0.001, 9.0), min_size=1, max_size=30), limit=st.floats(0.0, 60.0))
def test_rounds_are_taken_as_long_as_their_exact_sum_is_within_the_limit(prices: list[float], limit: float) -> None:
    limits = PrivacyLimits(epsilon_local_per_day=limit)
    charges: list[Charges] = []
    for number, price in enumerate(prices):
        exact = sum((Fraction(each) for each in prices[:number]), Fraction(price))
        asked = AnswerCost(TaskCost("t", 1.0, 1e-6, None), lambda _, price=price: Fraction(price), 0, limits)  # type: ignore[misc]
        accounts = [Account(TASK_ID, asked.task_cost, tuple(charges))]
        if exact > Fraction(limit):
            with pytest.raises(OverLimit):
                check_limits(accounts, TASK_ID, number, asked)
            return
        check_limits(accounts, TASK_ID, number, asked)
        charges.append(Charges(0, Fraction(price), 1, number, number))
        total = Account(TASK_ID, asked.task_cost, tuple(charges)).local
        assert total == exact
        assert rounded_up(exact) >= exact


def test_the_cap_on_all_rounds_and_the_local_epsilon_bound_what_many_rounds_cost() -> None:
    task_cost = TaskCost("t", 1.0, 1e-6, 3.0)
    many = Account(TASK_ID, task_cost, (Charges(0, Fraction(1, 4), 5, 0, 4),))
    assert many.central == (Fraction(5, 4), 0)
    dear = Account(TASK_ID, task_cost, (Charges(0, Fraction(4), 5, 0, 4),))
    assert dear.central == (3, Fraction(1e-6))
    broken = Account(TASK_ID, task_cost, dear.charges, None, {2: Fraction(2)})
    assert broken.central == (6, 5 * Fraction(1e-6))


def test_rounds_that_hang_together_are_never_added_up() -> None:
    """One report over all rounds: no sum of single rounds is a bound; the cap, a whole certificate and local ε are."""
    once = (Charges(0, Fraction(9), 1, 0, 0), Charges(0, Fraction(0), 3, 1, 3))
    capped = Account(TASK_ID, TaskCost("t", 0.5, 1e-6, 4.0, linked=True), once)
    assert capped.central == (4, Fraction(1e-6))
    assert replace(capped, proven=ProvenLoss(2, 0, Fraction(1))).central == capped.central
    assert replace(capped, proven=ProvenLoss(3, 0, Fraction(1))).central == (1, Fraction(1e-6))
    assert replace(capped, exceeded={2: Fraction(3)}).central == (9, 0)


def test_promises_are_taken_from_the_task(parties: Parties) -> None:
    privacy = Privacy(epsilon=7.0, delta=1e-3, epsilon_local=20.0, epsilon_total=9.0)
    task = sample_task(parties, privacy=privacy)
    exact = sum((Fraction(query.mechanism.epsilon_local) for query in task.queries), Fraction(0))
    assert local_cost(task, 0) == exact
    assert TaskCost.of(task) == TaskCost("flights", 7.0, 1e-3, 9.0)


@pytest.mark.parametrize(
    ("randomizer", "rounds_paid"),
    [
        (SendingVector(Vector.best(Horizon(8, 2), 2.0), 100), 1),
        (SendingStates(2, 2**31, Horizon(8, 2)), 8),
    ],
    ids=["drawn once for all rounds", "drawn anew in each round"],
)
def test_the_rounds_of_a_question_over_time_cost_together_what_its_law_says(
    randomizer: SendingVector | SendingStates, rounds_paid: int
) -> None:
    query = Query(Longitudinal("active", 2, periods=8), randomizer)
    costs = [query.local_cost(answered) for answered in range(8)]
    assert costs[0] == query.mechanism.epsilon_local
    assert (costs[1] == 0) is (rounds_paid == 1)
    assert math.fsum(costs) == rounds_paid * query.mechanism.epsilon_local


@pytest.mark.parametrize(
    ("limits", "name", "promised"),
    [
        (PrivacyLimits(epsilon=9.99), "epsilon", 10.0),
        (PrivacyLimits(delta=9e-3), "delta", 1e-2),
        (PrivacyLimits(epsilon_local=19.0, epsilon_local_per_day=1000.0), "epsilon_local", 20.0),
        (PrivacyLimits(delta=0), "delta", 1e-2),
    ],
    ids=["epsilon", "delta", "epsilon_local", "none at all"],
)
async def test_a_device_takes_no_part_in_a_task_that_promises_more_than_its_application_takes(
    device: Make, parties: Parties, limits: PrivacyLimits, name: str, promised: float
) -> None:
    """Before anything is drawn: the randomness that was handed in is not asked."""
    task = sample_task(parties, privacy=Privacy(epsilon=10.0, delta=1e-2, epsilon_local=20.0))

    def exhausted(count: int) -> bytes:
        raise AssertionError(f"{count} bytes were drawn")

    one = offline(device, task=signed(task, parties).encode(), limits=limits, random=exhausted)
    with pytest.raises(OverLimit, match=f"the task has {name} = {promised:g}, and this device") as refused:
        one.keep(ANSWERS)
    error = refused.value
    assert (error.limit, error.value, error.cost, error.frees_up) == (name, getattr(limits, name), promised, None)


async def test_a_promise_that_is_just_what_is_taken_is_answered(device: Make, parties: Parties) -> None:
    document = signed(promising_one(parties), parties).encode()
    one = offline(device, task=document, limits=PrivacyLimits(epsilon=1.0, delta=0.01, epsilon_local=20.0))
    assert one.keep(ANSWERS)
    assert (one.budget().left, one.budget().today.rounds) == ({}, 1)
