"""Documents that print commands with their answers: each line of an answer is what its command prints."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
from unittest.mock import patch

import pytest

from hubbub.cli.main import main

BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)


def answers(text: str) -> list[tuple[str, str]]:
    """Every command of a document's console blocks, with the lines below it."""
    found = []
    for block in BLOCK.findall(text):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, lines = part.partition("\n")
            found.append((command, lines))
    return found


def printed(command: str) -> list[str]:
    """What a command prints, line by line, without the layout: in a terminal so wide that it folds nothing."""
    out = io.StringIO()
    with patch.dict(os.environ, COLUMNS="500"), contextlib.redirect_stdout(out), pytest.raises(SystemExit) as ended:
        main(shlex.split(command)[1:])
    assert ended.value.code in (0, None)
    return [" ".join(line.split()) for line in out.getvalue().splitlines()]


def said(lines: str) -> list[str]:
    """What a document says a command prints, likewise."""
    return [" ".join(line.split()) for line in lines.splitlines() if line.strip()]


def missing(command: str, lines: str) -> list[str]:
    """What a document says and the command does not print; a line may leave out its end."""
    found = printed(command)
    return [line for line in said(lines) if not any(each == line or each.startswith(f"{line} ") for each in found)]
