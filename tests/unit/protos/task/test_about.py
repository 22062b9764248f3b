"""A task's words are signed with it, shown as they are, and refused where nobody could show them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from hubbub.protos.errors import TaskError
from hubbub.protos.task.about import LONGEST_WORDS, NOTHING, About
from hubbub.protos.task.draft import read_draft
from hubbub.protos.task.signed_task import read_task
from hubbub.protos.task.task import task_content
from support.samples import Parties, sample_task

DRAFT = """[task]
name = "usage"
start = 2026-12-01T00:00:00Z
length = "24h"
minimum_reports = 1000

[privacy]
epsilon = 1.0
delta = 1e-6

[about]
{about}

[[query]]
name = "theme"
kind = "histogram"
categories = ["light", "dark"]
"""

WORDS = About("The team", "To choose the first theme", "https://example.org/usage", (("carrier", "Which airline"),))


def test_a_draft_s_words_are_read() -> None:
    about = 'purpose = "To choose"\nowner = "The team"\nquestions = { theme = "The theme" }'
    assert read_draft(DRAFT.format(about=about)).about == About(
        "The team", "To choose", None, (("theme", "The theme"),)
    )
    assert read_draft(DRAFT.format(about="")).about == NOTHING


def test_words_are_signed_and_read_again() -> None:
    task = sample_task(Parties.generate())
    spoken = replace(task, about=WORDS)
    assert spoken.id != task.id
    assert read_task(json.loads(spoken.canonical)) == spoken


@pytest.mark.parametrize(
    ("about", "says"),
    [
        ('purpose = ""', "line 12: about.purpose is ''; give at most"),
        ('owner = "a\\nb"', "line 12: about.owner is 'a\\nb'; give at most"),
        (f'results = "{"x" * (LONGEST_WORDS + 1)}"', "line 12: about.results is"),
        ("purpose = 3", "line 12: about.purpose is 3"),
        ('purpse = "x"', "did you mean purpose?"),
        ('questions = "x"', "about.questions must be a table"),
        ('questions = { them = "x" }', "them is no question of the task; it asks 'theme'"),
    ],
)
def test_what_nobody_could_show_is_refused_by_name(about: str, says: str) -> None:
    with pytest.raises(TaskError) as refused:
        read_draft(DRAFT.format(about=about))
    assert says in str(refused.value)


@pytest.mark.parametrize("changed", [None, [], {"purpose": None}, {"owner": 1, "purpose": None, "results": None}])
def test_a_signed_task_with_other_words_is_refused(changed: Any) -> None:
    content = task_content(sample_task(Parties.generate())) | {"about": changed}
    with pytest.raises(TaskError):
        read_task(content)
