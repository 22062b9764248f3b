"""Made-up devices take turns through the answers that are stated."""

from __future__ import annotations

import pytest

from hubbub.deploy.errors import BadUse
from hubbub.deploy.rehearsal import turns
from hubbub.protos.task import Task
from support.samples import Parties, sample_task


@pytest.fixture
def task() -> Task:
    return sample_task(Parties.generate())


def test_devices_take_turns_through_each_querys_answers(task: Task) -> None:
    answers = list(turns(task, ["carrier=AA", "carrier=UA", "delay=1.5"], 3))
    assert answers == [
        {"carrier": "AA", "delay": 1.5},
        {"carrier": "UA", "delay": 1.5},
        {"carrier": "AA", "delay": 1.5},
    ]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "no answers to carrier.*--answer carrier=VALUE"),
        (["carrier"], "is not NAME=VALUE"),
        (["nothing=1"], "nothing"),
        (["carrier=AA", "delay=x"], "delay"),
    ],
)
def test_answers_that_do_not_fit_are_refused_before_anything_is_sent(task: Task, words: list[str], says: str) -> None:
    with pytest.raises(BadUse, match=says):
        turns(task, words, 3)


def test_a_missing_answer_is_bad_use(task: Task) -> None:
    with pytest.raises(BadUse):
        turns(task, ["delay=1"], 3)
