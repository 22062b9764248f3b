"""What is seen agrees with what is promised, and a promise that is wrong is marked.

The draws are seeded, so that nothing here fails by chance; with others a true promise is marked once in a thousand.
"""

from __future__ import annotations

import random as pseudo
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy import stats

from hubbub.accountant.mechanisms.noise_law import NoiseLaw
from hubbub.cli.tables.comparison import comparison_document, comparison_plot
from hubbub.planning.simulate.compare import (
    COVERAGE,
    FALSE_ALARM,
    Contender,
    Pool,
    RandomizerComparison,
    contenders,
    least_coverage,
    run,
    tolerance,
    verdict,
)
from hubbub.protos.task.task import Privacy
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.questions.number import Number
from hubbub.queries.randomizers.krr import KRandomizedResponse
from hubbub.queries.registry import RANDOMIZERS
from support.samples import FEW

if TYPE_CHECKING:
    from hubbub.queries.query import Query
    from hubbub.queries.randomizers.randomizer import Vector

WEAK = Privacy(epsilon=3.0, delta=1e-3, large_delta=FEW)
THEME = Histogram("theme", ("dark", "light", "sepia"), optional=True)
THEMES = ["dark"] * 500 + ["light"] * 300 + [None] * 200
MINUTES = [0.01 * number for number in range(1000)]


def seeded(seed: int) -> Callable[[int], bytes]:
    return pseudo.Random(seed).randbytes


def ran(contender: Contender, values: list[object], seed: int, repeat: int = 40) -> RandomizerComparison:
    return run(contender, values, repeat, 0, lambda _devices: None, seeded(seed))  # type: ignore[arg-type]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", sorted(RANDOMIZERS))
def test_every_randomizer_does_what_it_promises(kind: str) -> None:
    told: list[int] = []
    (contender,) = contenders(THEME, [kind], [1000], WEAK)
    found = run(contender, THEMES, 40, 0, told.append, seeded(1))
    assert contender.why_not is None
    assert contender.planned is not None
    assert sum(told) == 40_000
    assert [(each.statistic, each.verdict) for each in found.seen] == [("count", "agrees"), ("answered", "agrees")]
    assert found.seen[0].promised is not None
    # Planning leaves out what collisions of the other answers add: 16 cells of 256 rows, and answers that are common.
    assert found.seen[0].promised <= contender.planned * (1.25 if kind == "hashed" else 1)


def test_a_number_is_compared_by_its_sum_and_its_mean() -> None:
    (contender,) = contenders(Number("minutes", 0.0, 10.0), ["krr"], [500], WEAK)
    found = ran(contender, list(MINUTES), 2)
    assert [(each.statistic, each.verdict) for each in found.seen] == [("sum", "agrees"), ("mean", "agrees")]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("noise", [NoiseLaw("gaussian", 40 * 2**32, 60), NoiseLaw("geometric", 15 * 2**28, 90)])
def test_errors_beside_noise_are_as_promised(noise: NoiseLaw) -> None:
    """Of a query with noise, which is added in place of dummies."""
    (contender,) = contenders(THEME, ["krr"], [1000], WEAK)
    assert contender.query is not None
    noisy = replace(contender, query=replace(contender.query, noise=noise))
    (of_counts, _) = ran(noisy, list(THEMES), 3).seen
    (plain, _) = ran(contender, list(THEMES), 3).seen
    assert (of_counts.verdict, plain.verdict) == ("agrees", "agrees")
    keep = contender.query.randomizer.support_gap
    assert of_counts.promised is not None
    assert plain.promised is not None
    more = float(noise.variance) * 3 / 4 / keep**2
    assert of_counts.promised**2 == pytest.approx(plain.promised**2 + more, rel=0.05)


@dataclass(frozen=True)
class Boasting(KRandomizedResponse):
    """kRR that states a third of its standard error."""

    def variances(self, weights: Vector) -> Vector:
        return super().variances(weights) / 9


@dataclass(frozen=True)
class Biased(KRandomizedResponse):
    """kRR that undoes too little of its bias."""

    @property
    def support_other(self) -> float:
        return super().support_other * 0.5


@pytest.mark.parametrize("wrong", [Boasting, Biased])
def test_a_wrong_promise_is_marked(wrong: type[KRandomizedResponse]) -> None:
    (contender,) = contenders(THEME, ["krr"], [1000], WEAK)
    query = _through(contender.query, wrong)
    count = ran(replace(contender, query=query), list(THEMES), 3).seen[0]
    assert count.verdict == "larger"
    # A count's interval does not follow from its standard error.
    assert wrong is Boasting or count.coverage < 0.9


def _through(query: Query | None, kind: type[KRandomizedResponse]) -> Query:
    assert query is not None
    assert isinstance(query.randomizer, KRandomizedResponse)
    return replace(
        query, randomizer=kind(**{each.name: getattr(query.randomizer, each.name) for each in fields(query.randomizer)})
    )


def test_verdicts_are_those_of_the_stated_tolerance() -> None:
    low, high = tolerance(50)
    assert (low, high) == pytest.approx((0.685, 1.338), abs=5e-4)
    assert least_coverage(50) == pytest.approx(0.82, abs=0.021)
    assert [verdict(1.0, ratio, 0.95, 50) for ratio in (low * 0.99, low * 1.01, high * 0.99, high * 1.01)] == [
        *("smaller", "agrees"),
        *("agrees", "larger"),
    ]
    assert verdict(1.0, 1.0, least_coverage(50) - 0.01, 50) == "rarer"
    assert verdict(None, 1.0, 0.95, 50) == "agrees"


@pytest.mark.parametrize("rounds", [2, 7, 20, 333, 10_000])
def test_tolerances_are_the_quantiles_of_the_laws(rounds: int) -> None:
    quantiles = stats.chi2.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], rounds)
    assert tolerance(rounds) == pytest.approx(tuple(np.sqrt(quantiles / rounds)), rel=1e-12)
    assert least_coverage(rounds) == stats.binom.ppf(FALSE_ALARM, rounds, COVERAGE) / rounds


def test_a_true_promise_is_marked_as_seldom_as_stated() -> None:
    """Normal errors of 20 rounds that all move together, the worst case; 200 of 200,000 are to be marked, ± 14."""
    low, high = tolerance(20)
    ratios = np.sqrt(np.random.default_rng(5).chisquare(20, 200_000) / 20)
    marked = int(((ratios < low) | (ratios > high)).sum())
    assert abs(marked - 200_000 * FALSE_ALARM) <= 5 * 14


def test_what_cannot_be_planned_says_why_and_is_left_out() -> None:
    many = Histogram("page", tuple(map(str, range(5000))))
    (contender,) = contenders(many, ["unary"], [1000], WEAK)
    assert contender.why_not is not None
    assert "5000 symbols are too many for a bit each" in contender.why_not
    assert ran(contender, ["1"] * 1000, 1) == RandomizerComparison(contender)


def test_a_pool_gives_out_each_byte_once_in_order() -> None:
    source, asked = seeded(4), []

    def random(count: int) -> bytes:
        asked.append(source(count))
        return asked[-1]

    pool = Pool(random)
    drawn = [pool(count) for count in (4, 60_000, 70_000, 1, 5000, 4)]
    assert [len(each) for each in drawn] == [4, 60_000, 70_000, 1, 5000, 4]
    kept = [asked[0][:60_004], asked[1], asked[2][:5005]]
    assert b"".join(drawn) == b"".join(kept)


def test_the_picture_shows_what_was_promised_beside_what_was_seen() -> None:
    found = [ran(each, list(THEMES), 6, repeat=3) for each in contenders(THEME, ["krr"], [100, 1000], WEAK)]
    document = comparison_document("theme", "histogram", WEAK, 3, found)
    errors, intervals = comparison_plot(document).panels
    assert [(series.label, series.role, series.x) for series in errors.series] == [
        ("krr, promised", "promised", (100.0, 1000.0)),
        ("krr, seen", "seen", (100.0, 1000.0)),
    ]
    assert errors.series[1].y == tuple(each.seen[0].seen for each in found)
    assert intervals.series[-1].y == (0.95, 0.95)
