"""What a task is for, in words that it carries: its purpose, its owner, where results are, and what each question asks.

They are signed with the task, so that everyone who answers can be shown the same words. No number depends on them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from hubbub.queries.errors import FieldError, shown
from hubbub.queries.fields import check_keys, is_printable
from hubbub.queries.questions.question import listed

LONGEST_WORDS = 500
"""Most characters of each text."""

WORDS = ("owner", "purpose", "results")
"""The members that are one text each."""


@dataclass(frozen=True)
class About:
    """Words about a task; None or no entry where it has none.

    Attributes:
        owner: who answers for the task, and how to reach them.
        purpose: why it is asked, and what is done with the results.
        results: where results and certificates are published.
        questions: by name, what a question asks.
    """

    owner: str | None = None
    purpose: str | None = None
    results: str | None = None
    questions: tuple[tuple[str, str], ...] = ()

    @classmethod
    def read(cls, content: Any) -> About:
        """Read the table of a draft, or the member of a frozen task; `check` checks the texts.

        Raises:
            FieldError: if it has another form.
        """
        if not isinstance(content, Mapping):
            raise FieldError("file", "about", "must be a table; begin it with [about]")
        check_keys("about", dict(content), frozenset(), frozenset({*WORDS, "questions"}))
        questions = content.get("questions", {})
        if not isinstance(questions, Mapping):
            raise FieldError("about", "questions", 'must be a table; write [about.questions], and theme = "…" below it')
        return cls(**{name: content.get(name) for name in WORDS}, questions=tuple(sorted(questions.items())))

    def check(self, asked: Collection[str]) -> None:
        """Return only if each text can be shown, and each question is one of `asked`.

        Raises:
            FieldError: naming the first that is not.
        """
        given = [(name, text) for name in WORDS if (text := getattr(self, name)) is not None]
        for name, text in [*given, *self.questions]:
            if not (isinstance(text, str) and text.strip() and is_printable(text) and len(text) <= LONGEST_WORDS):
                limit = f"give at most {LONGEST_WORDS} printable characters in one line, or leave it out"
                raise FieldError("about", name, f"is {shown(text)}; {limit}")
        for name, _ in self.questions:
            if name not in asked:
                raise FieldError("about", name, f"is no question of the task; it asks {listed(list(asked))}")

    def content(self) -> dict[str, Any]:
        """Return the member of a task's JSON."""
        return {**{name: getattr(self, name) for name in WORDS}, "questions": dict(self.questions)}


NOTHING = About()
"""A task without words."""
