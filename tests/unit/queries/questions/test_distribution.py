"""Buckets, the cumulative distribution and quantiles, in drafts, tasks, answers and estimates."""

from __future__ import annotations

import itertools
import os
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.queries.errors import AnswerError, FieldError
from hubbub.queries.estimation.bands import interpolated, invert
from hubbub.queries.query import Query, read_question
from hubbub.queries.questions.distribution import Distribution
from hubbub.queries.randomizers.krr import KRandomizedResponse
from hubbub.queries.randomizers.randomizer import Tally
from support.estimate_rows import row

EDGES = (0.0, 5.0, 10.0, 20.0, 60.0)
SESSION = Distribution("session", EDGES, (0.1, 0.5, 0.9), "minutes")
QUERY = Query(SESSION, KRandomizedResponse(4, 2**28))


def draft(**members: Any) -> dict[str, Any]:
    return {"name": "session", "kind": "distribution", "edges": list(EDGES), **members}


def checked(**members: Any) -> Distribution:
    question = read_question("query[0]", draft(**members))
    assert isinstance(question, Distribution)
    question.check("query[0]")
    return question


@pytest.mark.parametrize(
    ("number", "bucket"),
    [(-7, 0), (0, 0), (5, 0), (5.0, 0), (5.0000001, 1), (10, 1), (11, 2), (20, 2), (20.5, 3), (60, 3), (1e300, 3)],
)
def test_a_bucket_holds_its_upper_edge_and_what_is_outside_is_clipped(number: float, bucket: int) -> None:
    assert SESSION.encode(number, os.urandom) == bucket


def test_whole_numbers_beyond_a_float_are_compared_exactly() -> None:
    exact = Distribution("n", (0.0, 2.0**53, 2.0**60))
    assert [exact.encode(2**53 + more, os.urandom) for more in (0, 1)] == [0, 1]


@pytest.mark.parametrize("answer", ["5", True, float("nan"), float("inf"), [5], {"session": 5}])
def test_what_is_no_finite_number_is_refused_without_being_repeated(answer: Any) -> None:
    with pytest.raises(AnswerError, match="the answer to session is"):
        SESSION.encode(answer, os.urandom)


def test_buckets_are_named_by_what_they_hold() -> None:
    assert SESSION.categories == ("≤ 5", "(5, 10]", "(10, 20]", "> 20")
    assert Distribution("n", (0.0, 1.0, 2.0)).categories == ("≤ 1", "> 1")


def test_a_draft_takes_quartiles_where_it_names_no_quantiles() -> None:
    assert checked().quantiles == (0.25, 0.5, 0.75)
    assert checked(quantiles=[]).quantiles == ()
    assert checked(quantiles=[0.5], unit="minutes", optional=True).optional


@pytest.mark.parametrize(
    ("members", "says"),
    [
        ({"edges": [0, 5]}, "edges has 2 numbers; give from 3"),
        ({"edges": [0, 5, 5]}, "edges has 5 before 5; write them in rising order"),
        ({"edges": [0, 5, 4]}, "edges has 5 before 4"),
        ({"edges": [0, 5, float("inf")]}, "edges has inf; each must be a number"),
        ({"edges": [0, "5", 6]}, "edges is '5'; it must be a number"),
        ({"edges": "0 5 6"}, "must be a list of numbers"),
        ({"quantiles": [0.5, 1]}, "above 0 and below 1"),
        ({"quantiles": [0]}, "above 0 and below 1"),
        ({"quantiles": [0.5, 0.5]}, "has 0.5 before 0.5"),
        ({"quantiles": [each / 200 for each in range(1, 150)]}, "at most 100 probabilities"),
        ({"unit": 7}, "unit is 7; it must be a short text"),
        ({"lower": 0}, "lower is not a key hubbub knows"),
    ],
    ids=range(12),
)
def test_a_draft_of_another_form_is_refused_with_its_key(members: dict[str, Any], says: str) -> None:
    with pytest.raises(FieldError, match=says):
        checked(**members)


def test_a_task_s_query_comes_back_as_it_was() -> None:
    content = QUERY.content()
    assert (content["edges"], content["quantiles"]) == ([0.0, 5.0, 10.0, 20.0, 60.0], [0.1, 0.5, 0.9])
    assert Query.read("query[0]", content) == QUERY


def test_rows_are_counts_then_the_function_then_quantiles() -> None:
    found = QUERY.estimates(Tally(np.array([400, 300, 200, 100]), 1000), 0)
    assert [each.statistic for each in found.rows] == ["count"] * 4 + ["cdf"] * 3 + ["quantile"] * 3 + ["answered"]
    assert [each.at for each in found.rows if each.at is not None] == [5.0, 10.0, 20.0, 0.1, 0.5, 0.9]
    assert found.clipped_to == (0.0, 60.0)
    shares = [each.estimate.value for each in found.rows if each.statistic == "cdf" and each.estimate]
    counts = [each.estimate.value for each in found.rows if each.statistic == "count" and each.estimate]
    assert shares == pytest.approx([share / 1000 for share in itertools.accumulate(counts[:3])])


def test_a_share_s_error_is_that_of_its_buckets_together() -> None:
    """A share of everybody is a sum of counts over n, and its error that of a yes or no about these buckets."""
    found = QUERY.estimates(Tally(np.array([400, 300, 200, 100]), 1000), 0)
    ten = next(each.estimate for each in found.rows if each.at == 10.0)
    gamma = Fraction(2**28, 2**32)
    inside, outside = 1 - gamma / 2, gamma / 2
    count = (700 - 1000 * gamma / 2) / (1 - gamma)
    variance = (count * inside * (1 - inside) + (1000 - count) * outside * (1 - outside)) / (1 - gamma) ** 2
    assert ten is not None
    assert ten.standard_error == pytest.approx(float(variance) ** 0.5 / 1000, rel=1e-9)


def test_nobody_who_answers_has_no_distribution() -> None:
    optional = Query(Distribution("session", EDGES, optional=True), KRandomizedResponse(5, 2**28))
    found = optional.estimates(Tally(np.array([0, 0, 0, 0, 100]), 100), 0)
    assert {each.estimate for each in found.rows if each.statistic in ("cdf", "quantile")} == {None}


def test_true_values_are_of_the_answers_themselves() -> None:
    truth = SESSION.truth([1, 5, 6.5, 12, 100, 3, 7, 8, 9, 10, None])
    assert truth["answered", None] == 10
    assert [truth["count", name] for name in SESSION.categories] == [3, 5, 1, 1]
    assert [truth["cdf", repr(edge)] for edge in (5.0, 10.0, 20.0)] == [0.3, 0.8, 0.9]
    assert [truth["quantile", repr(each)] for each in (0.1, 0.5, 0.9)] == [1, 7, 12]


@given(
    st.lists(st.integers(0, 20), min_size=2, max_size=7, unique=True).map(sorted),
    st.data(),
    st.sampled_from([0.05, 0.25, 0.5, 0.9]),
)
def test_an_inverted_band_covers_the_quantile_of_every_distribution_inside_it(
    edges: list[int], data: st.DataObject, probability: float
) -> None:
    shares = sorted(data.draw(st.lists(st.floats(0, 1), min_size=len(edges) - 2, max_size=len(edges) - 2)))
    reach = data.draw(st.lists(st.floats(0, 0.5), min_size=2 * len(shares), max_size=2 * len(shares)))
    band = [(share - reach[2 * i], share + reach[2 * i + 1]) for i, share in enumerate(shares)]
    low, high = invert([float(edge) for edge in edges], band, probability)
    # All that F says of the quantile: above the last edge where F < p, at most the first where F ≥ p.
    least = max([edge for edge, share in zip(edges[1:], shares, strict=False) if share < probability], default=edges[0])
    most = min(
        [edge for edge, share in zip(edges[1:], shares, strict=False) if share >= probability], default=edges[-1]
    )
    assert low <= least < most <= high


def test_a_band_that_is_narrower_somewhere_gives_its_edges() -> None:
    edges = [0.0, 1.0, 2.0, 3.0, 4.0]
    assert invert(edges, [(0.1, 0.2), (0.45, 0.55), (0.8, 0.9)], 0.5) == (1.0, 3.0)
    assert invert(edges, [(0.1, 0.2), (0.55, 0.6), (0.8, 0.9)], 0.5) == (1.0, 2.0)
    assert invert(edges, [(0.6, 0.7), (0.7, 0.8), (0.8, 0.9)], 0.5) == (0.0, 1.0)
    assert invert(edges, [(0.1, 0.2), (0.2, 0.3), (0.3, 0.4)], 0.5) == (3.0, 4.0)
    # F rises, so what is known at one edge holds at the others, too.
    assert invert(edges, [(0.55, 0.7), (0.4, 0.8), (0.8, 0.9)], 0.5) == (0.0, 1.0)
    # No distribution is inside this one: both readings are kept.
    assert invert(edges, [(0.6, 0.7), (0.2, 0.3), (0.8, 0.9)], 0.5) == (0.0, 3.0)


def test_a_quantile_is_read_off_linearly() -> None:
    assert interpolated([0.0, 10.0, 20.0], [0.0, 0.4, 1.0], 0.5) == pytest.approx(10 + 10 / 6)
    assert interpolated([0.0, 10.0, 20.0], [0.0, 0.0, 1.0], 0.5) == 15.0
    assert interpolated([0.0, 10.0, 20.0], [0.0, 1.0, 1.0], 1e-9) == pytest.approx(1e-8)


def test_a_quantile_is_within_its_interval_and_has_no_error() -> None:
    for counts in ([1000, 0, 0, 0], [0, 0, 0, 1000], [10, 490, 490, 10], [500, 0, 0, 500]):
        found = QUERY.estimates(Tally(np.array(counts), 1000), 0)
        for each in found.rows:
            if each.statistic == "quantile":
                assert each.estimate is not None
                assert each.estimate.standard_error is None
                assert each.estimate.lower <= each.estimate.value <= each.estimate.upper
                low, high = each.estimate.simultaneous or (0.0, 0.0)
                assert low <= each.estimate.lower < each.estimate.upper <= high
    assert row(found, "answered").estimate is not None
