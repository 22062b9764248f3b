"""A query with noise of the shuffler: its law, its bytes, its draws and its estimates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from hubbub.accountant.errors import AccountingError
from hubbub.accountant.mechanisms import WithNoise
from hubbub.accountant.mechanisms.longitudinal import Direct, Horizon
from hubbub.accountant.mechanisms.noise_law import ChainNoise, NoiseLaw
from hubbub.protos.identity.documents import canonical
from hubbub.queries.design import Design
from hubbub.queries.errors import FieldError
from hubbub.queries.estimation.debiased import Debiased
from hubbub.queries.longitudinal.direct import SendingStates
from hubbub.queries.longitudinal.over_rounds import Batch
from hubbub.queries.longitudinal.question import Longitudinal
from hubbub.queries.longitudinal.strategies import SENDINGS
from hubbub.queries.query import Query
from hubbub.queries.questions.grouped import Grouped
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.questions.number import Number
from hubbub.queries.randomizers.hashed import HashedResponse
from hubbub.queries.randomizers.krr import KRandomizedResponse
from hubbub.queries.randomizers.randomizer import Tally
from hubbub.queries.randomizers.unary import UnaryEncoding
from hubbub.queries.texts.text import DIGESTS, Text
from support.estimate_rows import counts

HALF = 2**31
NOISE = NoiseLaw.of("geometric", Fraction(6065, 10000), 25)
BELL = NoiseLaw("gaussian", 6 * 2**32, 16)
THEME = Histogram("theme", ("dark", "light", "system"))
PLAIN = Query(THEME, KRandomizedResponse(3, HALF))
NOISY = replace(PLAIN, noise=NOISE)
YES_NO = Query(Histogram("likes", ("no", "yes")), KRandomizedResponse(2, HALF), NOISE)
HASHED = Query(replace(THEME, randomizer="hashed"), HashedResponse(3, 8, 2, HALF), BELL)
TEXT = Query(Text("word"), HashedResponse(DIGESTS, 8, 2, HALF), BELL)
DIRECT = Query(Longitudinal("on", 1, "direct", periods=4), SendingStates.of(Direct(Horizon(4, 1), HALF)), NOISE)
NOISY_QUERIES = [NOISY, YES_NO, HASHED, TEXT, DIRECT]


def kind_of(query: Query) -> str:
    return f"{query.question.kind} {query.randomizer.kind} {query.symbols}"


# Its law, and its bytes


@pytest.mark.parametrize("query", NOISY_QUERIES, ids=kind_of)
def test_the_accountant_is_given_the_law_beside_the_noise(query: Query) -> None:
    assert query.mechanism == WithNoise(query.randomizer.mechanism, query.noise)  # type: ignore[arg-type]
    assert query.mechanism.epsilon_local == replace(query, noise=None).mechanism.epsilon_local
    assert replace(query, noise=None).mechanism == query.randomizer.mechanism


@pytest.mark.parametrize("query", NOISY_QUERIES, ids=kind_of)
def test_a_query_with_noise_reads_what_it_writes(query: Query) -> None:
    assert Query.read("query[0]", query.content()) == query
    plain = replace(query, noise=None)
    assert query.content() == plain.content() | {"noise": query.noise.content()}  # type: ignore[union-attr]
    assert list(query.content()) == [*plain.content(), "noise"]
    assert query != plain


def test_the_signed_bytes_of_noise_are_these() -> None:
    assert canonical(NOISY.content()) == (
        b'{"categories":["dark","light","system"],"gamma":[2147483648,4294967296],"kind":"histogram","mechanism":"krr",'
        b'"name":"theme","noise":{"family":"geometric","ratio":[2604897665,4294967296],"reach":25},"optional":false,"weight":1}'
    )


NOT_NOISE: list[tuple[Any, str]] = [
    (None, "a noise is None; give an object with a family"),
    ([], "give an object with a family"),
    ({"family": "laplace"}, "give an object with a family"),
    ({"family": "geometric", "ratio": [5, 7], "reach": 2}, "give family, ratio as"),
    ({"family": "geometric", "ratio": [HALF, 2**32]}, "give family, ratio as"),
    ({"family": "geometric", "ratio": [HALF, 2**32], "reach": 0}, "the noise's reach is 0; give a whole number"),
    ({"family": "geometric", "ratio": [1, 2**32], "reach": 50}, "has no mass at its ends"),
]


@pytest.mark.parametrize(("content", "says"), NOT_NOISE)
def test_what_is_no_noise_is_an_error_that_names_the_key(content: Any, says: str) -> None:
    with pytest.raises(FieldError, match=rf"^query\[0\]\.noise cannot be added: .*{says}"):
        Query.read("query[0]", PLAIN.content() | {"noise": content})


def test_noise_beside_a_randomizer_that_cannot_be_imitated_is_refused() -> None:
    question, unary = replace(THEME, randomizer="unary"), UnaryEncoding(3, 3 * 2**30, 2**30)
    with pytest.raises(AccountingError, match="beside unary is not proven"):
        Query(question, unary, NOISE)
    content = Query(question, unary).content() | {"noise": NOISE.content()}
    with pytest.raises(FieldError, match=r"query\[0\]\.noise cannot be added: noise of the shuffler beside unary"):
        Query.read("query[0]", content)


# At the shuffler


class Given:
    """Bytes that are given out in order, sixteen at a time, for one draw each."""

    def __init__(self, *numbers: int) -> None:
        self._numbers = list(numbers)

    def __call__(self, count: int) -> bytes:
        assert count == 16
        return self._numbers.pop(0).to_bytes(16, "big")

    @property
    def left(self) -> int:
        return len(self._numbers)


def test_each_symbol_has_a_draw_of_its_own() -> None:
    numbers = (0, 2**127, 2**128 - 1)
    given = Given(*numbers, 5)
    assert NOISY.draw_noise(given) == tuple(map(NOISE.value_at, numbers)) == (0, 25, 50)
    assert given.left == 1


def test_of_two_symbols_one_is_drawn_and_the_total_is_fixed() -> None:
    given = Given(0, 2**128 - 1, 2**100, 7)
    rare = NOISE.value_at(2**100)
    assert [YES_NO.draw_noise(given) for _ in range(3)] == [(50, 0), (0, 50), (50 - rare, rare)]
    assert given.left == 1
    assert DIRECT.draw_noise(given) == (50, 0)


def test_hashed_reports_have_a_draw_for_each_cell_of_each_row() -> None:
    numbers = [number * 2**123 for number in range(16)]
    assert HASHED.draw_noise(Given(*numbers)) == tuple(map(BELL.value_at, numbers))


def test_without_noise_nothing_is_drawn() -> None:
    assert PLAIN.draw_noise(Given()) == ()


# Estimates


def tally(*found: int) -> Tally:
    return Tally(np.array(found), sum(found))


def test_estimates_are_those_beside_the_noise() -> None:
    """Where uniform dummies have D · (1/k)(1 − 1/k) / keep², noise has Var z · (1 − 1/k) / keep²."""
    batch = tally(120, 40, 20)
    for dummies in (70, 80):
        plain, noisy = PLAIN.debiased(batch, dummies).every_symbol(), counts(NOISY.estimates(batch, dummies))
        assert [each.value for each in noisy] == [each.value for each in plain]
        more = (float(NOISE.variance) - dummies / 3) * (2 / 3) * 4
        for one, other in zip(noisy, plain, strict=True):
            assert one.standard_error is not None
            assert other.standard_error is not None
            assert one.standard_error**2 == pytest.approx(other.standard_error**2 + more, rel=1e-12)


def test_a_sum_has_the_noise_of_centered_weights() -> None:
    """Var z · Σ_j (j/L − ½)², in units of the range: the total is known."""
    levels = 4
    question = Number("share", 0.0, 10.0, levels=levels)
    query = Query(question, KRandomizedResponse(levels + 1, HALF), NOISE)
    batch, dummies = tally(30, 25, 28, 22, 20), 125
    (plain,), (noisy,) = (
        [row.estimate for row in each.estimates(batch, dummies).rows if row.statistic == "sum"]
        for each in (replace(query, noise=None), query)
    )
    assert plain is not None
    assert noisy is not None
    assert noisy.value == pytest.approx(plain.value)
    squares = sum((j / levels - 0.5) ** 2 for j in range(levels + 1))
    more = (float(NOISE.variance) - dummies / (levels + 1)) * squares * 4 * 100
    assert noisy.standard_error**2 == pytest.approx(plain.standard_error**2 + more, rel=1e-9)  # type: ignore[operator]


def test_every_group_and_every_total_has_the_noise() -> None:
    question = Grouped("theme", (Histogram("region", ("n", "s")),), Histogram("theme", ("a", "b")))
    query = Query(question, KRandomizedResponse(4, HALF), NOISE)
    batch, dummies = tally(70, 40, 60, 50), 100
    other_noise = replace(query, noise=BELL)
    for row, other in zip(
        query.estimates(batch, dummies).rows, other_noise.estimates(batch, dummies).rows, strict=True
    ):
        assert row.key == other.key
        if row.statistic != "count" or row.estimate is None or other.estimate is None:
            continue
        together = 1 if row.group else 2
        more = float(NOISE.variance - BELL.variance) * together * (1 - together / 4) * 4
        error, beside = row.estimate.standard_error or 0.0, other.estimate.standard_error or 0.0
        assert error**2 == pytest.approx(beside**2 + more, rel=1e-9)


def test_several_shufflers_make_the_variance_of_noise_as_many_times_larger() -> None:
    """And nothing else: the law, the task's content and the estimates are those of one."""
    batch, three = tally(120, 40, 20), replace(NOISY, shufflers=3)
    one, more = (counts(query.estimates(batch, 75)) for query in (NOISY, three))
    assert [each.value for each in one] == [each.value for each in more]
    for alone, together in zip(one, more, strict=True):
        added = 2 * float(NOISE.variance) * (2 / 3) * 4
        assert (together.standard_error or 0) ** 2 == pytest.approx((alone.standard_error or 0) ** 2 + added)
    assert (three.mechanism, three.content()) == (NOISY.mechanism, NOISY.content())
    assert three.noise_range == NOISY.noise_range == (0, 150)
    assert three.draw_noise(Given(0, 2**127, 0)) == (0, 25, 0)
    mse = Design(THEME).mse(3, NOISY.randomizer, 240, 0, three.chain_noise)
    assert mse - Design(THEME).mse(3, NOISY.randomizer, 240, 0, NOISY.chain_noise) == pytest.approx(added)


@pytest.mark.parametrize("shufflers", [0, -1, 1.5, True])
def test_a_chain_has_a_whole_number_of_shufflers(shufflers: Any) -> None:
    with pytest.raises(AccountingError, match=r"the number of shufflers is .*; give a whole number from 1"):
        ChainNoise(NOISE, shufflers)


@pytest.mark.parametrize(
    ("query", "dummies", "limit"),
    [
        *((NOISY, 151, "0 to 150"), (YES_NO, 49, "50"), (YES_NO, 51, "50")),
        *((replace(NOISY, shufflers=2), 301, "0 to 300"), (replace(YES_NO, shufflers=3), 50, "150")),
    ],
)
def test_a_number_of_dummies_that_noise_cannot_add_up_to_is_refused(query: Query, dummies: int, limit: str) -> None:
    batch = tally(*[200] * query.symbols)
    with pytest.raises(ValueError, match=f"{dummies} dummies are no sum of this noise; give {limit}$"):
        query.estimates(batch, dummies)


def test_a_state_sent_directly_is_counted_beside_the_noise_of_its_round() -> None:
    batches = {0: Batch(tally(60, 90), 50), 1: Batch(tally(70, 80), 50)}
    (count, _) = DIRECT.estimates_over(1, batches).rows
    expected = Debiased(DIRECT.randomizer, tally(70, 80), 50, ChainNoise(NOISE)).every_symbol()[1]
    assert (count.estimate, count.statistic) == (expected, "count")
    assert expected.value == 60.0


@pytest.mark.parametrize("strategy", [each for each in SENDINGS if each not in ("direct", "tree")])
def test_other_strategies_refuse_noise(strategy: str) -> None:
    sending = SENDINGS[strategy]
    rows: Callable[..., Any] = sending.rows
    refusals = {name: getattr(sending, name) for name in ("check_no_noise", "noise_variance")}
    fake = type("Fake", (), {**refusals, "strategy": type("S", (), {"kind": strategy})})()
    with pytest.raises(ValueError, match=f"reports of {strategy} have no estimates beside noise"):
        rows(fake, 0, {}, ChainNoise(NOISE))


# Planning


@pytest.mark.parametrize("query", [NOISY, YES_NO, HASHED], ids=kind_of)
@pytest.mark.parametrize("dummies", [0, 75])
def test_the_expected_error_has_the_variance_of_the_noise(query: Query, dummies: int) -> None:
    """Of one count: Var z over keep², but for the part of it that the known total takes away."""
    design, randomizer, size = Design(query.question), query.randomizer, query.question.answers
    assert query.noise is not None
    added = design.mse(size, randomizer, 1000, dummies, query.chain_noise) - design.mse(size, randomizer, 1000, 0)
    symbols = {3: 2 / 3, 2: 1.0}[query.symbols] if query.randomizer.kind == "krr" else 2 * (1 - 1 / 8)
    assert added == pytest.approx(float(query.noise.variance) * symbols / randomizer.support_gap**2, rel=1e-9)


def test_the_expected_error_beside_noise_is_that_of_estimates() -> None:
    """At the counts that are the worst: everybody has the answer."""
    everybody = NOISY.debiased(tally(120 + 40 + 25, 40 + 25, 40 + 25), 75)
    assert everybody.counts.tolist() == pytest.approx([240.0, 0.0, 0.0])
    worst = Design(THEME).mse(3, NOISY.randomizer, 240, 75, ChainNoise(NOISE))
    assert worst == pytest.approx(everybody.variance(np.array([1.0, 0.0, 0.0])), rel=1e-12)


def test_no_error_is_planned_for_noise_beside_other_randomizers() -> None:
    with pytest.raises(ValueError, match="beside unary is not proven"):
        Design(THEME).mse(3, UnaryEncoding(3, 3 * 2**30, 2**30), 1000, 0, ChainNoise(NOISE))
