"""Commands that compute for long show so on a terminal, on stderr; nothing with --json or without a terminal."""

from __future__ import annotations

import ast
import io
import json
import os
import re
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from hubbub.cli.terminal import output, progress
from hubbub.cli.terminal.output import Printer
from hubbub.deploy.demo.demo import DemoProgress
from support.certificates import content_of, counts, encode
from support.cli import hubbub_here
from support.ended_with_test import started_program
from support.patience import PATIENCE
from support.samples import LATER_DRAFT
from support.source_tree import MODULES, ROOT, parsed
from vectors.make_kinds import DEVICES, task_of
from vectors.make_signed import PARTIES

KRR = ("--mechanism", "krr", "--categories", "4", "--local-epsilon", "1", "--reports", "100")
ASKED = ("--epsilon", "1", "--delta", "1e-6", "--reports", "1000")
LONGITUDINAL = ("--periods", "4", "--changes", "1", "--epsilon", "1", "--delta", "1e-6", "--reports", "1000")
OVER = ("--over", "reports", "--from", "10", "--to", "20", "--points", "2", "--bound", "local")

CASES = [
    pytest.param(("account", "epsilon", *KRR, "--delta", "1e-6"), ["computing ε"], id="epsilon"),
    pytest.param(("account", "delta", *KRR, "--epsilon", "0.1"), ["computing δ"], id="delta"),
    pytest.param(("account", "rdp", *KRR, "--order", "2"), ["computing the divergence"], id="rdp"),
    pytest.param(("account", "bounds", *KRR, "--delta", "1e-6"), ["computing every bound"], id="bounds"),
    pytest.param(("account", "compose", "rounds.json", "--delta", "1e-6"), ["composing"], id="compose"),
    pytest.param(("account", "calibrate", "--query", "sum", *ASKED), ["calibrating"], id="calibrate"),
    pytest.param(("account", "calibrate", "--query", "sum", "--compare", *ASKED), ["comparing"], id="compare"),
    pytest.param(
        ("account", "calibrate", "--query", "histogram", "--categories", "4", "--randomizer", "auto", *ASKED),
        ["comparing randomizers"],
        id="auto",
    ),
    pytest.param(("account", "longitudinal", *LONGITUDINAL), ["calibrating tree"], id="longitudinal"),
    pytest.param(("account", "plot", *KRR[:-2], "--delta", "1e-6", *OVER, "--out", "plot.svg"), ["bounds"], id="plot"),
    pytest.param(
        ("plan", "task.toml", "--compare"), ["planning", "counting the rounds that fit", "comparing"], id="plan"
    ),
    pytest.param(("plan", "task.toml", "--error", "30"), ["solving for ε"], id="plan by error"),
    pytest.param(
        ("simulate", "--data", "data.csv", "--column", "a"),
        ["planning", "devices encode and randomize"],
        id="simulate",
    ),
    pytest.param(
        ("simulate", "--data", "data.csv", "--column", "a", "--compare", "krr", "--reports", "40", "--repeat", "2"),
        ["a: planning", "a: devices encode and randomize"],
        id="simulate --compare",
    ),
    pytest.param(
        (
            "simulate",
            "--data",
            "weeks.csv",
            "--column",
            "on",
            "--device",
            "who",
            "--period",
            "week",
            "--changes",
            "1",
            "--compare",
            "direct",
            "--reports",
            "40",
            "--repeat",
            "2",
            "--epsilon",
            "4",
            "--local-epsilon",
            "8",
        ),
        ["strategies: planning", "devices send"],
        id="simulate --changes",
    ),
    pytest.param(
        ("verify", "certificate.json"), ["verifying certificate.json", "computing the estimates again"], id="verify"
    ),
    pytest.param(("verify", "."), ["verifying certificate.json"], id="history"),
    pytest.param(("verify", "certificate.json", "--rigorous"), ["proving all_rounds: blanket"], id="rigorous"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made, task = tmp_path_factory.mktemp("made"), task_of("top")
    (made / "certificate.json").write_bytes(encode(content_of(task, PARTIES, [counts(task, 0, DEVICES)]), PARTIES))
    (made / "rounds.json").write_text(
        json.dumps([{"mechanism": "krr", "categories": 4, "local_epsilon": 1, "reports": 100, "rounds": 2}])
    )
    (made / "task.toml").write_text(LATER_DRAFT)
    (made / "data.csv").write_text("a\n" + "x\ny\n" * 30)
    weeks = [f"{who},{week},{str(week > who % 3).lower()}\n" for who in range(60) for week in range(2)]
    (made / "weeks.csv").write_text("who,week,on\n" + "".join(weeks))
    return made


def shown(words: tuple[str, ...], folder: Path, monkeypatch: pytest.MonkeyPatch, terminal: bool) -> str:
    """What a command shows of its progress, without colors and movements."""
    err = io.StringIO()
    monkeypatch.setattr(progress, "progress_console", lambda: Printer(file=err, force_terminal=terminal, width=200))
    ran = hubbub_here(*words, folder=folder)
    assert ran.status == 0, ran.err
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", err.getvalue())


@pytest.mark.parametrize(("words", "steps"), CASES)
def test_progress_is_shown_on_a_terminal_alone(
    words: tuple[str, ...], steps: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = shown(words, folder, monkeypatch, terminal=True)
    for step in steps:
        assert step in said
    assert shown((*words, "--json"), folder, monkeypatch, terminal=True) == ""


def test_without_a_terminal_there_is_none(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for case in (*CASES[:3], *CASES[-3:]):
        assert shown(case.values[0], folder, monkeypatch, terminal=False) == ""


def test_a_name_is_shown_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    err = io.StringIO()
    monkeypatch.setattr(progress, "progress_console", lambda: Printer(file=err, force_terminal=True, color_system=None))
    with progress.working("[b]\x1b[31m", as_json=False) as now:
        now("verifying [/b]\x07.json")
    assert "[b]\\x1b[31m" in err.getvalue()
    assert "verifying [/b]\\x07.json" in err.getvalue()


def test_every_bar_knows_whether_json_is_asked_for() -> None:
    """`load`, `audit`, `rehearse` and `demo` start services, so their calls are read here."""
    wrong, found = [], 0
    for path in MODULES:
        if path.relative_to(ROOT).parts[0] != "cli" or path.name == "progress.py":
            continue
        for node in ast.walk(parsed(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            called = [getattr(each, "id", "") for each in (node.func, *node.args)]
            place = {"working": 2, "progress_bars": 1}.get(called[0])
            if place is None and "progress_bars" in called:
                place = called.index("progress_bars") + 1  # a partial call
            if place is not None:
                found += 1
                if called[place : place + 1] != ["as_json"]:
                    wrong.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert wrong == []
    assert found > 15


def test_a_demo_with_json_says_nothing_of_its_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    for terminal in (True, False):
        err = io.StringIO()
        console = Printer(file=err, force_terminal=terminal, width=200, quiet=True)
        with DemoProgress(console, partial(progress.progress_bars, True)) as stages, stages.stage("start", "start"):
            stages.advance(1)
        assert err.getvalue() == ""
    monkeypatch.setattr("sys.stderr", err := io.StringIO())
    output.progress_console(quiet=True).print("a stage")
    output.progress_console().print("a sentence")
    assert err.getvalue() == "a sentence\n"


def test_bars_that_go_on_erase_nothing_that_was_printed_meanwhile() -> None:
    console = Printer(file=(err := io.StringIO()), force_terminal=True, width=200)
    with DemoProgress(console, partial(progress.progress_bars, False)) as stages:
        for name in ("start", "submit", "verify"):
            with stages.stage(name, name):
                pass
        with stages.paused():
            err.write("open the address\n")
        with stages.stage("stop", "stop the services"):
            pass
    before, _, after = err.getvalue().partition("open the address\n")
    up = "\x1b[1A"
    assert up in before, "three bars are drawn over each other"
    assert up not in after
    assert "stop the services" in after
    assert "verify" not in after


def test_a_program_that_asks_for_colors_without_a_terminal_gets_no_moving_bars(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As a notebook does for each command that it runs."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr("sys.stderr", err := io.StringIO())
    with progress.working("computing", False) as say:
        say("still computing")
    assert err.getvalue() == ""


SHOWN_CURSOR, HIDDEN_CURSOR = b"\x1b[?25h", b"\x1b[?25l"

WORKS = r"""
import os, signal
from hubbub.cli.terminal.progress import working
with working("computing", False):
    os.write(1, b"it works\n")
    signal.pause()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_terminal_has_its_cursor_again_if_a_signal_ends_the_command(number: signal.Signals) -> None:
    """A hidden cursor would stay hidden in the shell, for all that is typed from then on."""
    terminal, of_program = os.openpty()
    program = [sys.executable, "-c", WORKS]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    with started_program(program, stdout=subprocess.PIPE, stderr=of_program, env=environment) as running:
        os.close(of_program)
        assert running.stdout is not None
        assert running.stdout.readline() == b"it works\n"
        running.send_signal(number)
        assert running.wait(PATIENCE) == -number
    said = b""
    # Linux says that the other end is closed by an error.
    while found := _read(terminal):
        said += found
    os.close(terminal)
    assert HIDDEN_CURSOR in said
    assert said.rpartition(HIDDEN_CURSOR)[2].count(SHOWN_CURSOR) == 1


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""
