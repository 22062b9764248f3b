"""KRR is chosen as ever, and what unary encoding is expected to be off by is what enumeration gives."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache
from math import sqrt
from typing import Any, Literal

import pytest

from hubbub.accountant.calibration import calibrate
from hubbub.accountant.calibration.noise import NOISE_WORTH
from hubbub.accountant.certificate.minimum import check_minimum
from hubbub.accountant.certificate.terms import Terms
from hubbub.accountant.errors import AccountingError
from hubbub.deploy.init.folders import sample
from hubbub.planning import plan as planning
from hubbub.planning.plan import plan
from hubbub.planning.planned import Plan, PlannedQuery, expected_errors, forecast_of
from hubbub.protos.errors import TaskError, UnmetTask
from hubbub.protos.task.draft import read_draft
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.signed_task import SignedTask, read_task
from hubbub.protos.task.task import Draft, Privacy
from hubbub.queries.design import Design
from hubbub.queries.query import Query
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.questions.number import Number
from hubbub.queries.questions.question import Question, symbols_of
from hubbub.queries.randomizers.krr import KRandomizedResponse
from hubbub.queries.randomizers.unary import MAXIMUM_BITS, UnaryEncoding
from hubbub.queries.registry import RANDOMIZERS
from support.ladder_randomizer import MuteLadder
from support.messages import NO_DUMMY, NOT_EVEN_THE_FIRST
from support.samples import FEW, START, Parties

pytestmark = pytest.mark.usefixtures("composed_once")

PARTIES = Parties.generate()
SCHEDULE = Schedule(START, length=3600, grace=60, rounds=3)


def draft(minimum_reports: int, privacy: Privacy, *questions: Question) -> Draft:
    return Draft("usage", SCHEDULE, minimum_reports, privacy, questions)


# kRR is chosen as it was when it was the only randomizer


def of_sample() -> Draft:
    return read_draft(sample("task.toml").replace("@START@", "2026-01-01T00:00:00Z"))


def without_noise() -> Draft:
    return replace(of_sample(), noise="none")


def flights(cap: float, dummies: int) -> Draft:
    carrier = Histogram("carrier", tuple(f"c{number:02}" for number in range(16)))
    delay = Number("delay", -30.0, 180.0, "minutes", optional=True)
    return draft(18_000, Privacy(1.0, 1e-6, cap, dummies=dummies), carrier, delay)


def alone(question: Question, reports: int, privacy: Privacy) -> Draft:
    return draft(reports, privacy, question)


THEME, MINUTES = Histogram("theme", ("a", "b", "c")), Number("minutes", 0.0, 60.0, "minutes")

CHOSEN: dict[str, tuple[Callable[[], Draft], list[tuple[int, int | None, float]]]] = {
    "the sample": (without_noise, [(684234635, None, 11.589372475302442), (960669592, 3, 1525.240192097137)]),
    "flights, cap 8": (
        lambda: flights(8.0, 0),
        [(987375049, None, 71.63430407506286), (432392680, 4, 6947.7858814182555)],
    ),
    "flights, cap 8, dummies": (
        lambda: flights(8.0, 1000),
        [(987375049, None, 72.3206144711943), (432392680, 4, 7472.93784618922)],
    ),
    "flights, cap 20": (
        lambda: flights(20.0, 0),
        [(253459528, None, 32.595223712960525), (150371186, 7, 3843.340017649001)],
    ),
    "a histogram alone": (
        lambda: alone(THEME, 2_000, Privacy(1.0, 1e-6, 8.0, 0.9)),
        [(267063831, None, 9.505704318623614)],
    ),
    "a sum alone": (
        lambda: alone(MINUTES, 5_000, Privacy(0.5, 1e-8, 8.0)),
        [(632889051, 4, 1139.722594432845)],
    ),
}
"""What commit 2081baf chose, when every query was answered through kRR: γ·2³², levels, expected error."""

CHARGED = 1e-5
"""How much more noise may be taken: what rounding adds to several queries' composition is charged more carefully."""

# Dummies are in what is planned of unary encoding below, and in tests/unit/accountant/spending/test_budget.py.
MARKS = {"flights, cap 8, dummies": pytest.mark.exhaustive}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", [pytest.param(name, marks=MARKS.get(name, ())) for name in CHOSEN])
def test_krr_is_planned_as_before_there_were_other_randomizers(name: str) -> None:
    drafted, wanted = CHOSEN[name]
    found = plan(drafted()).queries
    for each, (gamma, levels, error) in zip(found, wanted, strict=True):
        assert krr(each) == (pytest.approx(gamma, rel=CHARGED), levels)
        assert each.expected_error == pytest.approx(error, rel=CHARGED)


def krr(planned: PlannedQuery) -> tuple[int, int | None]:
    randomizer = planned.query.randomizer
    assert isinstance(randomizer, KRandomizedResponse)
    return randomizer.gamma, planned.query.question.content().get("levels")


# Unary encoding

UNARY_THEME = replace(THEME, randomizer="unary")
COLOR = Histogram("color", ("red", "green"))
UNARY_MINUTES = replace(MINUTES, optional=True, randomizer="unary")
PRIVACY = Privacy(2.0, 1e-4, 16.0, large_delta=FEW)

UNARY: dict[str, Draft] = {
    "histogram": draft(500, PRIVACY, UNARY_THEME),
    "sum": draft(500, PRIVACY, UNARY_MINUTES),
    "histogram under a low cap": draft(500, replace(PRIVACY, epsilon_local=2.0), UNARY_THEME),
    "histogram with dummies": draft(500, replace(PRIVACY, dummies=150), UNARY_THEME),
    "sum with dummies": draft(500, replace(PRIVACY, dummies=150), UNARY_MINUTES),
    "both, of fewer honest people": draft(500, replace(PRIVACY, honest_share=0.8), UNARY_THEME, UNARY_MINUTES),
    "both and kRR, with dummies": draft(500, replace(PRIVACY, dummies=150), UNARY_THEME, UNARY_MINUTES, COLOR),
}
ALONE = [name for name, drafted in UNARY.items() if len(drafted.questions) == 1]
TOGETHER = [
    # tests/unit/analyzer/test_certifier.py certifies two queries, and the others have dummies.
    pytest.param("both, of fewer honest people", marks=pytest.mark.exhaustive),
    pytest.param("both and kRR, with dummies", marks=pytest.mark.exhaustive),
]


@cache
def planned(name: str) -> Plan:
    return plan(UNARY[name])


@pytest.mark.parametrize("name", [*ALONE, *TOGETHER])
def test_a_task_with_unary_encoding_is_read_as_it_was_frozen_and_keeps_its_promise(name: str) -> None:
    chosen = planned(name)
    task = chosen.task(PARTIES.public)
    wanted = [question.randomizer for question in UNARY[name].questions]
    assert [query.randomizer.kind for query in task.queries] == wanted
    again = SignedTask.decode(SignedTask(task).signed_by(PARTIES.operator).encode()).task
    assert (again, again.canonical, again.id) == (task, task.canonical, task.id)
    assert read_task(json.loads(task.canonical)).canonical == task.canonical
    check_minimum(Terms.of(again), [query.mechanism for query in again.queries])
    assert sum(query.mechanism.epsilon_local for query in again.queries) <= again.privacy.epsilon_local
    assert all(each.half_width <= each.widest for each in chosen.queries)


@pytest.mark.parametrize("name", ["histogram", "sum", "histogram with dummies"])
def test_a_little_less_noise_would_break_the_promise(name: str) -> None:
    """Each is calibrated to its last digits: bits that are flipped one part in 500 less often are too few."""
    chosen = planned(name).queries[0].query.randomizer
    assert isinstance(chosen, UnaryEncoding)
    less = int(chosen.other * 0.998)
    truthful = 2**32 - less if chosen.truthful == 2**32 - chosen.other else chosen.truthful
    with pytest.raises(AccountingError, match="is promised"):
        check_minimum(Terms.of(UNARY[name]), [replace(chosen, truthful=truthful, other=less).mechanism])


@pytest.mark.parametrize("name", [*ALONE, *TOGETHER])
def test_the_expected_error_of_unary_encoding_is_the_worst_case_by_enumeration(name: str) -> None:
    """All 2^k reports for all symbols, exactly; values between two steps are mixtures of both."""
    chosen = planned(name)
    reports, dummies = chosen.draft.minimum_reports, chosen.draft.privacy.dummies
    found = [each for each in chosen.queries if isinstance(each.query.randomizer, UnaryEncoding)]
    assert found
    for each in found:
        total = reports * worst(each.query) + dummies * of_a_dummy(each.query)
        scale = each.widest / reports
        assert each.expected_error == pytest.approx(sqrt(total) * scale, rel=1e-9)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("optional", [False, True])
@pytest.mark.parametrize("levels", [1, 3, 4, 5])
@pytest.mark.parametrize(
    ("truthful", "other"),
    [(2**31, 2**28), (2**31, 2**31 - 2**27), (2**32 - 2**28, 2**28), (2**32 - 2**20, 2**31), (3 * 2**30, 2**30 + 1)],
)
def test_the_worst_value_of_a_sum_is_found_whatever_its_steps_and_bits(
    truthful: int, other: int, levels: int, optional: bool
) -> None:
    """Bits whose own variance is above, below and equal to the others': it bends either way over the steps."""
    question = replace(MINUTES, optional=optional, levels=levels, randomizer="unary")
    query = Query(question, UnaryEncoding(symbols_of(question), truthful, other))
    found = Design(question).mse(question.answers, query.randomizer, 7, 3)
    assert found == pytest.approx(float(7 * worst(query) + 3 * of_a_dummy(query)), rel=1e-9)


def weights(query: Query) -> list[Fraction]:
    """By symbol, what is added up: one category's count, or the value from 0 to 1; "no answer" is worth nothing."""
    question, symbols = query.question, query.symbols
    if isinstance(question, Histogram):
        return [Fraction(symbol == 0) for symbol in range(symbols)]
    assert isinstance(question, Number)
    levels = question.answers - 1
    return [Fraction(symbol, levels) if symbol <= levels else Fraction(0) for symbol in range(symbols)]


def variance(query: Query, mixture: dict[int, Fraction]) -> Fraction:
    """The variance of one debiased report of someone who encodes each of these symbols with its probability."""
    randomizer, worth = query.randomizer, weights(query)
    assert isinstance(randomizer, UnaryEncoding)
    laws = {symbol: randomizer.mechanism.law(symbol) for symbol in mixture}
    keep = Fraction(randomizer.truthful - randomizer.other, 2**32)
    mean, second, last = Fraction(0), Fraction(0), randomizer.symbols - 1
    for number in range(2**randomizer.symbols):
        chance = sum((part * laws[symbol][number] for symbol, part in mixture.items()), Fraction(0))
        value = sum((worth[bit] for bit in range(last + 1) if number >> (last - bit) & 1), Fraction(0)) / keep
        mean, second = mean + chance * value, second + chance * value**2
    return second - mean**2


def worst(query: Query) -> Fraction:
    values = [variance(query, {symbol: Fraction(1)}) for symbol in range(query.symbols)]
    if isinstance(query.question, Number):
        values += [peak(query, step) for step in range(query.question.answers - 1)]
    return max(values)


def peak(query: Query, step: int) -> Fraction:
    """The largest variance over values from one step to the next: a parabola through three enumerated points."""
    low, middle, high = (
        variance(query, {step: 1 - part, step + 1: part}) for part in (Fraction(0), Fraction(1, 2), Fraction(1))
    )
    bent, slope = 2 * (low - 2 * middle + high), 4 * middle - 3 * low - high
    top = -slope / (2 * bent)
    return low + slope * top + bent * top**2 if 0 < top < 1 else max(low, high)


def of_a_dummy(query: Query) -> Fraction:
    return variance(query, {symbol: Fraction(1, query.symbols) for symbol in range(query.symbols)})


def test_the_lower_cap_on_local_epsilon_is_kept_to() -> None:
    (capped,), (free,) = planned("histogram under a low cap").queries, planned("histogram").queries
    assert 1.99 < capped.epsilon_local <= 2.0 < free.epsilon_local
    assert capped.expected_error > free.expected_error


def test_what_to_expect_names_the_randomizer_and_its_exact_probabilities() -> None:
    (only,) = expected_errors(planned("histogram").queries)
    randomizer = planned("histogram").queries[0].query.randomizer
    assert isinstance(randomizer, UnaryEncoding)
    assert (only["randomizer"], only["symbols"], only["levels"]) == ("unary", 3, None)
    assert only["truthful"] == f"{randomizer.truthful}/4294967296"
    assert only["other"] == f"{randomizer.other}/4294967296"
    assert "gamma" not in only
    (krr_alone,) = expected_errors(plan(alone(THEME, 2_000, Privacy(1.0, 1e-6, 8.0, 0.9))).queries)
    assert (krr_alone["randomizer"], krr_alone["gamma"]) == ("krr", "267063831/4294967296")


TOML = """\
[task]
name = "usage"
start = 2026-01-01T00:00:00Z
length = "1h"
grace = "1m"
minimum_reports = 500

[privacy]
epsilon = 2.0
delta = 1e-4
epsilon_local = 16.0

[[query]]
name = "theme"
kind = "histogram"
categories = ["a", "b", "c"]

[[query]]
name = "minutes"
kind = "sum"
lower = 0
upper = 60
optional = true
randomizer = "unary"
"""


def test_a_draft_names_the_randomizer_of_each_query_and_krr_needs_no_name() -> None:
    assert [question.randomizer for question in read_draft(TOML).questions] == ["krr", "unary"]


@pytest.mark.parametrize("kind", ['"rappor"', '""', "1", '["krr"]'])
def test_an_unknown_randomizer_names_its_line_and_those_there_are(kind: str) -> None:
    line = TOML.splitlines().index('randomizer = "unary"') + 1
    known = " or ".join(map(repr, (*RANDOMIZERS, "auto")))
    with pytest.raises(TaskError, match=rf"^line {line}: query\[1\]\.randomizer is .*must be {known}$"):
        read_draft(TOML.replace('"unary"', kind))


@pytest.mark.parametrize("optional", [False, True])
def test_too_many_categories_for_a_bit_each_name_the_limit(optional: bool) -> None:
    """With "no answer" there is one symbol more."""
    most = MAXIMUM_BITS - (1 if optional else 0)
    question = Histogram("word", names(most + 1), optional, randomizer="unary")
    with pytest.raises(TaskError, match=f"{MAXIMUM_BITS + 1} symbols .* at most {MAXIMUM_BITS}, or use krr"):
        plan(draft(500, PRIVACY, question))


def test_a_frozen_task_with_too_many_bits_is_refused() -> None:
    content: dict[str, Any] = json.loads(planned("histogram").task(PARTIES.public).canonical)
    content["queries"][0]["categories"] = list(names(MAXIMUM_BITS + 1))
    with pytest.raises(TaskError, match=rf"query\[0\]\.randomizer is unary; .* at most {MAXIMUM_BITS}"):
        read_task(content)


def names(count: int) -> tuple[str, ...]:
    return tuple(f"w{number}" for number in range(count))


# Noise of the shuffler


def over_rounds(total: float | None, noise: Literal["none", "auto", "always"], rounds: int = 3) -> Draft:
    drafted = alone(THEME, 2_000, Privacy(1.0, 1e-6, 6.0, epsilon_total=total))
    return replace(drafted, noise=noise, schedule=replace(drafted.schedule, rounds=rounds))


def test_noise_for_one_round_gives_way_to_noise_for_all_rounds_if_these_would_not_fit_the_total() -> None:
    """Three rounds with noise for one compose to nearly three times its ε, and without noise to less than two."""
    free, capped = plan(over_rounds(None, "auto")), plan(over_rounds(2.0, "auto"))
    assert free.queries[0].query.noise is not None
    assert 2.5 < forecast_of(free).epsilon_of_all <= 3.0
    assert capped.queries == plan(over_rounds(2.0, "always")).queries
    assert (forecast_of(capped).within, capped.noise_needs) == (3, None)
    plain = plan(over_rounds(2.0, "none"))
    assert forecast_of(plain).within == 3
    assert capped.queries[0].expected_error < 0.6 * plain.queries[0].expected_error


def test_noise_is_left_out_if_fewer_rounds_would_fit_and_noise_for_all_of_them_is_too_wide() -> None:
    free, capped = plan(over_rounds(None, "auto", 40)), plan(over_rounds(2.0, "auto", 40))
    plain, always = plan(over_rounds(2.0, "none", 40)), plan(over_rounds(2.0, "always", 40))
    assert capped.queries == plain.queries
    assert always.queries[0].expected_error > NOISE_WORTH * plain.queries[0].expected_error
    assert forecast_of(capped).within > forecast_of(replace(free, draft=capped.draft)).within
    assert forecast_of(free).epsilon_of_all == capped.noise_needs
    wide = plan(over_rounds(capped.noise_needs, "auto", 40))
    assert (wide.queries, wide.noise_needs) == (free.queries, None)
    # Not even one round fits, with noise or without: the refusal says so.
    with pytest.raises(TaskError, match=f"{NOT_EVEN_THE_FIRST} would be released"):
        plan(over_rounds(0.5, "auto"))


def test_a_plan_for_a_chain_has_the_noise_of_every_shuffler() -> None:
    """The law and ε are those of one shuffler; the variance of the noise is that of all, and auto compares with it."""
    asked = replace(alone(Histogram("theme", ("a", "b", "c", "d")), 2_000, Privacy(1.0, 1e-6, 8.0)), noise="always")
    (one,), (three,) = (plan(replace(asked, shufflers=number)).queries for number in (1, 3))
    assert (three.query.noise, three.epsilon_upper) == (one.query.noise, one.epsilon_upper)
    assert (one.query.shufflers, three.query.shufflers) == (1, 3)
    assert one.query.noise is not None
    more = 2 * float(one.query.noise.variance) * (1 - 1 / 4) / one.query.randomizer.support_gap**2
    assert three.expected_error**2 == pytest.approx(one.expected_error**2 + more, rel=1e-9)
    frozen = plan(replace(asked, shufflers=3)).task(Parties.generate(2).public)
    assert [query.shufflers for query in frozen.queries] == [3]
    assert SignedTask.decode(SignedTask(frozen).encode()).task == frozen


def test_more_noise_of_a_chain_than_is_sealed_for_a_batch_is_refused_with_the_remedy() -> None:
    many = Histogram("code", tuple(f"c{number}" for number in range(250)))
    asked = replace(alone(many, 20_000, Privacy(0.002, 1e-6, 8.0)), noise="always")
    with pytest.raises(TaskError, match=r"noise of 8 shufflers .* dummies on average, and at most 10,000,000 are seal"):
        plan(replace(asked, shufflers=8))
    with pytest.raises(TaskError, match="shufflers is 9"):
        plan(replace(asked, shufflers=9))


# What keeps noise out


def test_a_query_that_keeps_noise_out_is_named_with_why() -> None:
    theme = Histogram("theme", ("a", "b", "c"))
    many = Histogram("many", tuple(f"c{number:02}" for number in range(40)), randomizer="unary")
    asked = replace(draft(20_000, Privacy(1.0, 1e-6, 8.0), theme, many), noise="auto")
    found = plan(asked)
    assert {each.name: each.query.noise is not None for each in found.queries} == {"theme": True, "many": False}
    why = planning.noise_kept_out(found)
    assert [*why] == ["many"]
    assert "the randomizer is unary; use krr, or leave the noise out" in why["many"]
    assert planning.noise_kept_out(plan(replace(asked, noise="none"))) == {}


def test_a_query_whose_error_noise_makes_larger_says_by_how_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if no larger error at all were worth it: noise seldom costs five percent."""
    for module in (calibrate, planning):
        monkeypatch.setattr(module, "NOISE_WORTH", 1.0)
    asked = draft(20_000, Privacy(0.1, 1e-7, 2.0), Histogram("many", tuple(f"c{at}" for at in range(40))))
    found = plan(replace(asked, noise="auto"))
    assert found.queries[0].query.noise is None
    (why,) = planning.noise_kept_out(found).values()
    told = re.fullmatch(r"its standard error would be ([0-9.]+) with noise, and is ([0-9.]+) without", why)
    assert told is not None
    assert float(told[1]) > float(told[2])
    assert float(told[2]) == pytest.approx(found.queries[0].expected_error, rel=1e-3)


# An error inside a search


@pytest.mark.parametrize("stated", [(), (("theme", 30.0),)], ids=["none", "an error"])
@pytest.mark.parametrize("families", [1, 2, 3])
def test_dummies_beside_a_law_that_states_none_are_what_planning_tells(
    monkeypatch: pytest.MonkeyPatch, families: int, stated: tuple[tuple[str, float], ...]
) -> None:
    """More reports or a larger ε would not help, so neither is asked for."""

    def few(symbols: int) -> Any:
        return every(symbols)[:families]

    every = MuteLadder.families
    monkeypatch.setattr(MuteLadder, "families", few)
    monkeypatch.setitem(RANDOMIZERS, MuteLadder.kind, MuteLadder)  # type: ignore[arg-type]  # a mapping that is a dict
    theme = Histogram("theme", ("a", "b", "c"), randomizer=MuteLadder.kind)
    asked = replace(draft(1000, Privacy(1.0, 1e-6, 8.0, dummies=10), theme), errors=stated)
    with pytest.raises(TaskError, match=f"{NO_DUMMY}, but there are 10") as caught:
        plan(asked)
    assert "no randomizer was found at 1000 reports" in str(caught.value)
    assert "more reports" not in str(caught.value)


@pytest.mark.parametrize("name", ["_smallest_minimum", "_in_one_message", "_noise_for_all_rounds"])
def test_a_search_of_planning_ends_at_an_error_that_other_numbers_do_not_mend(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    searches: dict[str, Callable[[], Any]] = {
        "_smallest_minimum": lambda: planning._smallest_minimum(without_noise()),
        "_in_one_message": lambda: planning._in_one_message(without_noise(), "carrier"),
        "_noise_for_all_rounds": lambda: planning._noise_for_all_rounds(without_noise(), (), 1),
    }

    def raises(error: TaskError) -> None:
        def planned(draft: Draft, reports: int) -> None:
            raise error

        monkeypatch.setattr(planning, "_plan_at", planned)

    raises(TaskError("the law is not read"))
    with pytest.raises(TaskError, match=r"^the law is not read$"):
        searches[name]()
    raises(UnmetTask("too few"))
    assert searches[name]() in (None, float("inf"))


def test_a_draft_that_differs_in_its_share_alone_is_planned_anew() -> None:
    names = tuple(map(str, range(16)))
    privacy = Privacy(1.0, 1e-6)
    worst = draft(10_000, privacy, Histogram("theme", names, share=1.0))
    usual = draft(10_000, privacy, Histogram("theme", names, share=0.05))
    assert worst == usual  # the share is no part of a question
    assert plan(usual).queries[0].expected_error < plan(worst).queries[0].expected_error
