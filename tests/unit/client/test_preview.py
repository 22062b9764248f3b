"""A preview says what would be sent, and changes nothing."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from hubbub.client import AnswerError, Device, NoRound, PrivacyLimits
from support.fake_shuffler import FakeShuffler
from support.krr_queries import symbol

ANSWERS: dict[str, Any] = {"carrier": "UA", "delay": 12.5}
Make = Callable[..., Device]


async def test_a_preview_stores_sends_and_spends_nothing(device: Make, shuffler: FakeShuffler) -> None:
    one = device()
    before = (one.status(), one.budget())
    found = one.preview(ANSWERS)
    assert (one.status(), one.budget()) == before
    assert (shuffler.seen, shuffler.fetched) == ([], [])
    assert (found.task, found.round, found.not_sent) == (one.task.name, 0, None)
    receipt = await one.submit(ANSWERS)
    sent = next(each for each in shuffler.seen if each.id == receipt.submission_id)
    assert found.submission_bytes == len(sent.id) + len(sent.envelope)
    assert found.epsilon_local == one.status().spending.epsilon_local
    assert found.epsilon_local == pytest.approx(sum(query.epsilon_local for query in found.queries))


def test_reports_count_as_often_as_it_says(device: Make) -> None:
    one, tries = device(random=random.Random(5).randbytes), 1000
    query = one.preview(ANSWERS).queries[0]
    assert query.encoded == "UA"
    assert query.own is not None
    assert query.other is not None
    assert query.own + (query.symbols - 1) * query.other == pytest.approx(1)
    encoded = one.task.queries[0].encode("UA", one._session.random)
    own = sum(symbol(one.preview(ANSWERS).queries[0].report) == encoded for _ in range(tries))
    assert own / tries == pytest.approx(query.own, abs=4 * (query.own * (1 - query.own) / tries) ** 0.5)


def test_numbers_are_shown_on_their_grid_and_a_missing_answer_by_name(device: Make) -> None:
    one = device()
    number = one.task.queries[1].question
    grid = {one.preview(ANSWERS).queries[1].encoded for _ in range(40)}
    assert all(each.endswith(number.unit) for each in grid)  # type: ignore[attr-defined]
    assert one.preview({"carrier": "UA"}).queries[1].encoded == "no answer"


async def test_it_says_why_nothing_would_be_sent(device: Make) -> None:
    one = device()
    await one.submit(ANSWERS)
    assert "answered before" in str(one.preview(ANSWERS).not_sent)
    limited = device(name="limited", limits=PrivacyLimits(epsilon_local_per_day=1e-9))
    assert "the round adds" in str(limited.preview(ANSWERS).not_sent)
    one.opt_out()
    assert "opted out" in str(one.preview(ANSWERS).not_sent)


def test_bad_answers_and_rounds_are_refused_as_by_submit(device: Make) -> None:
    with pytest.raises(AnswerError, match="is not one of its categories"):
        device().preview({"carrier": "Zeppelin"})
    with pytest.raises(NoRound):
        device().preview(ANSWERS, 10_000)


def test_nothing_of_an_answer_is_in_what_a_log_shows(device: Make) -> None:
    found = device().preview(ANSWERS)
    assert "UA" not in repr(found)
    assert found.queries[0].report.hex() not in repr(found)
