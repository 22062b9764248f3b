"""A shell completes commands, options and choices; whatever else asks by its variable is told how."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hubbub.cli.main import main
from hubbub.cli.registry import SUMMARIES
from hubbub.cli.terminal.completion import SHELLS, VARIABLE
from support.patience import PATIENCE


def asked(
    what: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], **words: str
) -> tuple[int, str, str]:
    for name, value in {VARIABLE: what, **words}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as ended:
        main([])
    assert isinstance(ended.value.code, int)
    return ended.value.code, *capsys.readouterr()


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_gets_its_script_by_the_name_that_other_programs_use(
    shell: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    status, script, errors = asked(f"{shell}_source", monkeypatch, capsys)
    assert (status, errors) == (0, "")
    assert f"{VARIABLE}=complete_{shell}" in script


@pytest.mark.parametrize("what", ["tcsh_source", "bash", "source", "1", "bash_x", "bash_complete"])
def test_what_else_asks_is_told_how(
    what: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A shell evaluates what is printed, so nothing is: the overview of commands would be run."""
    status, printed, errors = asked(what, monkeypatch, capsys)
    assert (status, printed) == (2, "")
    assert f'in bash, run: eval "$({VARIABLE}=bash_source hubbub)"' in errors


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("hubbub pl", {"plan"}),
        ("hubbub ", set(SUMMARIES)),
        ("hubbub plan --no", {"--no-compare"}),
        ("hubbub account epsilon --mech", {"--mechanism"}),
        ("hubbub demo --noise ", {"none", "auto", "always"}),
        ("hubbub plan '", set()),
    ],
)
def test_words_are_completed(
    words: str, found: set[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place = str(words.count(" "))
    status, printed, errors = asked("complete_bash", monkeypatch, capsys, COMP_WORDS=words, COMP_CWORD=place)
    assert (status, set(printed.split()), errors) == (0, found, "")


def test_bash_itself_completes_a_command(tmp_path: Path) -> None:
    (tmp_path / "hubbub").write_text(f'#!/bin/sh\nexec {sys.executable} -m hubbub.cli.main "$@"\n')
    (tmp_path / "hubbub").chmod(0o755)
    script = (
        f'eval "$({VARIABLE}=bash_source hubbub)"; COMP_WORDS=(hubbub repo); COMP_CWORD=1; '
        "_hubbub_completion hubbub; echo ${COMPREPLY[*]}"
    )
    around = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", script], env=around, capture_output=True, timeout=PATIENCE, check=True)
    assert (done.stdout, done.stderr) == (b"report\n", b"")
