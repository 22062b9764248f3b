"""Says how to cite published rounds, as a sentence and as BibTeX."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

_SPECIAL = {
    **{each: f"\\{each}" for each in "&%$#_"},
    # BibTeX counts braces behind a backslash too: a name could end its member and begin others.
    "{": r"\textbraceleft{}",
    "}": r"\textbraceright{}",
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}
"""Characters that TeX reads as commands, as it prints them."""


@dataclass(frozen=True)
class Citation:
    """What a citation has. `owner` and `published` are the task's own words, None if it has none.

    `digest` is the SHA-256 of the newest round's certificate: whoever has the same certificate has the same numbers.
    """

    task: str
    task_id: str
    rounds: str
    begins: datetime
    ends: datetime
    owner: str | None
    published: str | None
    digest: str

    @property
    def _title(self) -> str:
        return f"{self.task}: {self.rounds}, estimates under differential privacy"

    @property
    def _days(self) -> str:
        first, last = f"{self.begins:%Y-%m-%d}", f"{self.ends:%Y-%m-%d}"
        return first if first == last else f"{first} to {last}"

    @property
    def sentence(self) -> str:
        """The citation in one line of plain text."""
        said = [self.owner or "Owner not stated", f"({self.ends:%Y}). {self._title}, {self._days}."]
        said += [f"Published at {self.published}."] if self.published else []
        return " ".join([*said, f"Task {self.task_id}, certificate SHA-256 {self.digest}."])

    @property
    def bibtex(self) -> str:
        """The citation as an entry of BibTeX, with all characters of TeX's own escaped."""
        key = re.sub("[^a-z0-9]+", "-", f"{self.task}-{self.task_id[:8]}-{self.rounds}".lower())
        members = {
            "title": f"{{{_escaped(self._title)}}}",
            "author": f"{{{_escaped(self.owner or 'Owner not stated')}}}",
            "year": f"{self.ends:%Y}",
            "date": f"{self.ends:%Y-%m-%d}",
            **({"howpublished": _escaped(self.published)} if self.published else {}),
            "note": f"Task {self.task_id}, certificate SHA-256 {self.digest}",
        }
        lines = "".join(f"  {name} = {{{value}}},\n" for name, value in members.items())
        return f"@misc{{{key},\n{lines}}}"


def _escaped(text: str) -> str:
    return "".join(_SPECIAL.get(each, each) for each in text)
