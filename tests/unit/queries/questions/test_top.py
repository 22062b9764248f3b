"""Only what is significantly different from zero, largest first, with its rate said."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hubbub.queries.errors import FieldError
from hubbub.queries.estimation.count_law import law_of_counts
from hubbub.queries.estimation.debiased import Debiased
from hubbub.queries.query import Query, read_question
from hubbub.queries.questions.top import Top
from hubbub.queries.randomizers.krr import KRandomizedResponse
from hubbub.queries.randomizers.randomizer import Tally

NAMES = tuple(f"site {number}" for number in range(40))
QUERY = Query(Top("site", NAMES), KRandomizedResponse(40, 2**30))
COUNTS = np.array([300, 500, 60, *[6] * 37])


def test_what_is_told_from_zero_is_published_largest_first() -> None:
    found = QUERY.estimates(Tally(COUNTS, int(COUNTS.sum())), 0)
    assert [row.category for row in found.rows] == ["site 1", "site 0", "site 2", None]
    assert [row.significant for row in found.rows] == [True, True, True, None]
    (note,) = found.notes
    assert note.startswith(
        "3 of 40 categories are significantly different from zero; on average at most 0.05 of those found have nobody"
    )


def test_intervals_of_what_was_chosen_are_those_of_a_band_over_all_categories() -> None:
    tally = Tally(COUNTS, int(COUNTS.sum()))
    found = QUERY.estimates(tally, 0)
    every = Debiased(QUERY.randomizer, tally).every_symbol()
    first = found.rows[0].estimate
    assert first is not None
    assert first.value == every[1].value
    (low,), (high,) = law_of_counts(QUERY.randomizer, tally.valid, 0, None, 1).intervals(COUNTS[1:2], 0.05 / 40)
    assert (first.lower, first.upper) == (low, high)
    assert first.lower < every[1].lower < every[1].upper < first.upper
    assert first.simultaneous == (first.lower, first.upper)


def test_nothing_is_found_where_there_is_noise_alone() -> None:
    found = QUERY.estimates(Tally(np.full(40, 6), 1000), 0)
    assert [row.statistic for row in found.rows] == ["answered"]
    assert found.notes[0].startswith("0 of 40")


def test_a_task_names_its_rate_and_a_draft_need_not() -> None:
    draft: dict[str, Any] = {"name": "site", "kind": "top", "categories": ["a", "b"]}
    question = read_question("query[0]", draft)
    assert question == Top("site", ("a", "b"), false_discovery_rate=0.05)
    assert read_question("query[0]", {**draft, "false_discovery_rate": 0.1}) == Top(
        "site", ("a", "b"), false_discovery_rate=0.1
    )
    assert Query.read("query[0]", QUERY.content()) == QUERY
    assert QUERY.content()["false_discovery_rate"] == 0.05


@pytest.mark.parametrize("rate", [0, -0.1, 0.51, float("nan"), "0.05", True])
def test_a_rate_out_of_its_limits_is_refused(rate: Any) -> None:
    with pytest.raises(FieldError, match="false_discovery_rate is"):
        read_question(
            "query[0]", {"name": "site", "kind": "top", "categories": ["a", "b"], "false_discovery_rate": rate}
        ).check("query[0]")
