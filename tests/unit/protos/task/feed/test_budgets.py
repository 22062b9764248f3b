"""All tasks of a purpose stay within one budget, and the sum of their shares bounds what they reveal together."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import pytest

from hubbub.protos.identity.documents import canonical, parse_canonical
from hubbub.protos.task.feed.budgets import PurposeBudget, PurposeSpending, Share, ShareError
from hubbub.protos.task.feed.entry import FeedEntry, FeedError
from hubbub.protos.task.feed.feed import Feed
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.task import Privacy
from support.messages import NOT_A_FEED_ENTRY
from support.samples import Parties, sample_task, signed

PARTIES = Parties.generate()
USAGE = PurposeBudget("usage", 0.3, 1e-5)


def task(name: str, epsilon_total: float | None = 0.1, delta: float = 1e-6) -> SignedTask:
    return signed(sample_task(PARTIES, name=name, privacy=Privacy(10.0, delta, epsilon_total=epsilon_total)), PARTIES)


def published(*each: tuple[SignedTask, PurposeBudget | None]) -> Feed:
    feed = Feed()
    for one, budget in each:
        feed = feed.with_entry(feed.publishing(one, budget).signed_by(PARTIES.operator).signed_by(PARTIES.shuffler))
    return feed


TWO = published((task("first"), USAGE), (task("second"), USAGE))


def test_shares_are_added_as_the_decimals_that_people_write() -> None:
    spending = TWO.spending["usage"]
    assert spending.spent == Share(Fraction(2, 10), Fraction(2, 10**6))
    assert spending.in_words() == "ε 0.2 of 0.3 is spent and 0.1 left, δ 2e-06 of 1e-05 is spent and 8e-06 left"
    # 0.1 three times is 0.3, though not in binary numbers.
    third = TWO.with_entry(TWO.publishing(task("third"), USAGE)).spending["usage"]
    assert third.left == Share(Fraction(0), Fraction(7, 10**6))
    assert list(third.tasks) == [task(name).task.id for name in ("first", "second", "third")]
    assert third.as_json() == {
        "purpose": "usage",
        "epsilon": 0.3,
        "delta": 1e-5,
        "spent": {"epsilon": 0.3, "delta": 3e-6},
        "left": {"epsilon": 0.0, "delta": 7e-6},
        "tasks": [each.hex() for each in third.tasks],
    }


def test_what_is_kept_is_what_the_entries_say() -> None:
    """The spending is handed on from entry to entry; a feed that is made of all entries at once adds them up anew."""
    assert Feed(TWO.entries).spending == TWO.spending
    assert [FeedEntry.decode(each.encode()) for each in TWO.entries] == list(TWO.entries)
    other = published((task("first"), USAGE), (task("second"), None), (task("third"), replace(USAGE, purpose="ads")))
    assert (list(other.spending), other.purposes) == (["usage", "ads"], {"first": "usage", "third": "ads"})


REFUSED: list[tuple[Callable[[], tuple[SignedTask, PurposeBudget | None]], str]] = [
    (
        lambda: (task("third", 0.100001), USAGE),
        "would take ε 0.100001 and δ 1e-06 of the budget of purpose usage, of which ε 0.2 of 0.3 is spent and 0.1 left",
    ),
    (lambda: (task("third", 0.01, 8.1e-6), USAGE), "would take ε 0.01 and δ 8.1e-06 .* and 8e-06 left"),
    (lambda: (task("third", None), USAGE), "task third does not cap what all its rounds cost together"),
    (
        lambda: (task("third"), replace(USAGE, epsilon=3.0)),
        "states ε ≤ 3 at δ ≤ 1e-05 for all tasks of purpose usage together, but an earlier entry stated ε ≤ 0.3",
    ),
    (lambda: (task("third"), replace(USAGE, delta=1e-4)), "a budget stands as it was stated first"),
    (lambda: (task("third"), replace(USAGE, epsilon=0.25)), "a budget stands as it was stated first"),
    (lambda: (task("first", 0.05), None), "publishes task first for no purpose, but an earlier task of this name is"),
    (lambda: (task("first", 0.05), replace(USAGE, purpose="ads")), "for purpose ads, but an earlier .* purpose usage"),
]


@pytest.mark.parametrize(("made", "says"), REFUSED, ids=range(len(REFUSED)))
def test_what_would_exceed_or_change_a_budget_is_refused(
    made: Callable[[], tuple[SignedTask, PurposeBudget | None]], says: str
) -> None:
    one, budget = made()
    with pytest.raises(FeedError, match=says):
        TWO.publishing(one, budget)
    # Also if somebody made the entry in another way.
    position, who = TWO.position, one.task.identities
    entry = FeedEntry(3, position.hash, who.operator, who.shuffler, one.task.id, signed=one, budget=budget)
    with pytest.raises(FeedError, match=f"entry 3 of the feed.*{says}"):
        TWO.with_entry(entry)


def test_an_end_gives_nothing_back() -> None:
    ended = TWO.with_entry(TWO.ending(task("first").task.id, -1))
    assert ended.spending == TWO.spending
    with pytest.raises(FeedError, match=r"would take ε 0.15 .* and 0.1 left"):
        ended.publishing(task("third", 0.15), USAGE)


def test_an_end_has_no_budget() -> None:
    value = parse_canonical(TWO.ending(task("first").task.id, 0).encode())
    value["body"]["budget"] = USAGE.content()
    with pytest.raises(FeedError, match="its body does not have the members of its action"):
        FeedEntry.decode(canonical(value))


def test_a_budget_is_signed() -> None:
    entry = TWO.entries[0]
    larger = replace(entry, budget=replace(USAGE, epsilon=3.0))
    assert larger.hash != entry.hash
    assert canonical(larger.body) != canonical(entry.body)


BUDGETS: list[tuple[Any, str]] = [
    ({"epsilon": 1.0, "purpose": "usage"}, "has the members delta, epsilon and purpose"),
    ({"delta": 1e-6, "epsilon": 1.0, "purpose": "usage", "more": 1}, "has the members"),
    ("usage", "has the members"),
    (None, "has the members"),
    ({"delta": 1e-6, "epsilon": True, "purpose": "usage"}, "are numbers"),
    ({"delta": 1e-6, "epsilon": 0.0, "purpose": "usage"}, "the budget's ε is 0.0; give a number above 0"),
    ({"delta": 0.0, "epsilon": 1.0, "purpose": "usage"}, "the budget's δ is 0.0"),
    ({"delta": 1.0, "epsilon": 1.0, "purpose": "usage"}, "the budget's δ is 1.0; give a number above 0 and below 1"),
    ({"delta": 1e-6, "epsilon": 1.0, "purpose": "two words"}, "a purpose has a name like that of a task"),
]


@pytest.mark.parametrize(("content", "says"), BUDGETS, ids=range(len(BUDGETS)))
def test_what_is_no_budget_is_refused(content: Any, says: str) -> None:
    value = parse_canonical(TWO.entries[0].encode())
    value["body"]["budget"] = content
    with pytest.raises(FeedError, match=f"{NOT_A_FEED_ENTRY}.*{says}"):
        FeedEntry.decode(canonical(value))


# Brute force: every way to choose tasks after results, and to alternate their rounds


@dataclass(frozen=True)
class Law:
    """The (ε, δ)-private pair of laws that reveals most: `factor` is exp(ε). Outcomes have (P, Q), exactly."""

    factor: Fraction
    delta: Fraction

    @property
    def outcomes(self) -> list[tuple[Fraction, Fraction]]:
        high = (1 - self.delta) * self.factor / (1 + self.factor)
        low = (1 - self.delta) / (1 + self.factor)
        sides = [(self.delta, Fraction(0)), (Fraction(0), self.delta)] if self.delta else []
        return [*sides, (high, low), (low, high)]


Rounds = tuple[Law, ...]

HALF, SMALL, PLAIN = (
    Law(Fraction(3, 2), Fraction(1, 100)),
    Law(Fraction(1), Fraction(1, 20)),
    Law(Fraction(2), Fraction(0)),
)
KINDS: dict[str, Rounds] = {"one": (HALF,), "rare": (SMALL,), "plain": (PLAIN,), "two": (HALF, SMALL)}


def share_task(name: str, rounds: Rounds) -> SignedTask:
    """A task that states what its rounds reveal, ε rounded up in the sixth digit."""
    epsilon = math.ceil(1e6 * sum(math.log(law.factor) for law in rounds)) / 1e6
    return task(name, max(epsilon, 1e-6), float(sum(law.delta for law in rounds)) or 1e-9)


TASKS = {name: share_task(name, rounds).task for name, rounds in KINDS.items()}

Allowed = Callable[[PurposeSpending, str], PurposeSpending | None]


def by_the_rule(spending: PurposeSpending, kind: str) -> PurposeSpending | None:
    try:
        return spending.with_task(TASKS[kind])
    except ShareError:
        return None


def worst(
    spending: PurposeSpending,
    factor: Fraction,
    allowed: Allowed,
    masses: tuple[Fraction, Fraction] = (Fraction(1), Fraction(1)),
    under_way: tuple[Rounds, ...] = (),
) -> Fraction:
    """The largest P(S) - factor · Q(S) that anybody reaches who begins tasks and rounds as they like, after results."""
    p, q = masses
    best = max(Fraction(0), p - factor * q)
    # Once an outcome is certain, or impossible, there is nothing more to choose.
    if not p or not q:
        return best
    moves = [
        (spending, each[0], (*under_way[:place], each[1:], *under_way[place + 1 :]))
        for place, each in enumerate(under_way)
    ]
    for kind, rounds in KINDS.items():
        after = allowed(spending, kind)
        if after is not None:
            moves.append((after, rounds[0], (*under_way, rounds[1:])))
    for after, law, rest in moves:
        waiting = tuple(sorted((each for each in rest if each), key=repr))
        reached = sum(
            (worst(after, factor, allowed, (p * its_p, q * its_q), waiting) for its_p, its_q in law.outcomes),
            Fraction(0),
        )
        best = max(best, reached)
    return best


BUDGET = PurposeBudget("usage", 1.0, 0.075)


def test_no_choice_of_tasks_and_rounds_reaches_more_than_the_budget() -> None:
    reached = worst(PurposeSpending(BUDGET), Fraction(math.exp(BUDGET.epsilon)), by_the_rule)
    # Close to it, so the budget could not be much smaller.
    assert Fraction(5, 100) < reached <= Fraction("0.075")


def test_without_the_sum_of_delta_more_is_reached() -> None:
    loose = replace(BUDGET, delta=0.2)
    assert worst(PurposeSpending(loose), Fraction(math.exp(BUDGET.epsilon)), by_the_rule) > Fraction("0.075")


def test_composing_the_tasks_at_once_would_not_hold_if_they_are_chosen_after_results() -> None:
    """Each pair of tasks is within δ at the factor, composed exactly; a choice by the first result is not."""
    factor, first = Fraction(2), HALF
    seconds = (SMALL, Law(Fraction(7, 4), Fraction(0)))

    def of(second: Callable[[int], Law]) -> Fraction:
        return sum(
            (
                max(Fraction(0), p * its_p - factor * q * its_q)
                for place, (p, q) in enumerate(first.outcomes)
                for its_p, its_q in second(place).outcomes
            ),
            Fraction(0),
        )

    fixed = max(of(lambda _place, law=law: law) for law in seconds)  # type: ignore[misc]
    chosen = max(
        of(lambda place, one=one, other=other, at=at: one if place in at else other)  # type: ignore[misc]
        for one in seconds
        for other in seconds
        for at in ({0}, {1}, {2}, {3}, {0, 2})
    )
    assert chosen > fixed
