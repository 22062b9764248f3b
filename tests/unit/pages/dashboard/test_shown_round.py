"""What is kept of a round has its rows whole, and no certificate; rounds are named in few words."""

from __future__ import annotations

import pickle

import pytest

from hubbub.pages.dashboard.shown_round import ShownRound, in_words
from hubbub.protos.records.counts import read_certified
from hubbub.results import ResultsTable, Trust
from support.dashboard import made_rounds


@pytest.mark.parametrize("number", range(3))
def test_a_round_keeps_every_row_and_not_its_certificate(number: int) -> None:
    results = made_rounds()[number]
    table = ResultsTable([results], Trust(True))
    shown = ShownRound.of(table)
    assert [row for name in shown.queries for row in shown.rows(name)] == list(table)
    assert shown.rows("another") == []
    assert shown.withheld == tuple(row.query for row in table if row.withheld)
    assert results.certificate[:200] not in pickle.dumps(shown)


@pytest.mark.parametrize(
    ("numbers", "words"),
    [([], ""), ([3], "3"), ([2, 1, 0], "0 to 2"), ([0, 1, 3, 7, 8], "0 to 1, 3, 7 to 8")],
)
def test_rounds_are_named_in_runs(numbers: list[int], words: str) -> None:
    assert in_words(numbers) == words


def test_certificates_of_a_task_share_its_task_and_their_histories() -> None:
    first, second, third = (read_certified(each.certificate) for each in made_rounds())
    assert first.task is second.task is third.task
    for number in range(2):
        assert second.content["history"][number] is third.content["history"][number]
    again = bytes(bytearray(made_rounds()[0].certificate))
    assert read_certified(again) is first, "the same bytes are read once"
