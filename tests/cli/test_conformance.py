"""`hubbub conformance` runs a client, and says in words, in JSON and by its exit status whether it conforms."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

from support.cli import hubbub
from support.ended_with_test import started_program
from support.patience import PATIENCE
from support.samples import LATER_DRAFT
from support.source_tree import ROOT

PAGE = ROOT / "docs" / "howto" / "check-a-client.md"


def test_the_client_of_the_page_conforms_as_the_page_says(tmp_path: Path) -> None:
    page = PAGE.read_text()
    (program,) = re.findall(r"(?ms)^```python\n(import json\nimport os\n.*?)^```$", page)
    (shown,) = re.findall(r"(?ms)^```text\n\$ hubbub conformance [^\n]*\n(.*?)^```$", page)
    (tmp_path / "client.py").write_text(program)
    ran = hubbub("conformance", "--", sys.executable, "client.py", folder=tmp_path)
    assert (ran.status, (ran.err + ran.out).splitlines()) == (0, shown.splitlines())
    assert list(tmp_path.iterdir()) == [tmp_path / "client.py"]


def test_with_a_log_that_client_refuses_what_the_page_says(tmp_path: Path) -> None:
    page = PAGE.read_text()
    (program,) = re.findall(r"(?ms)^```python\n(import json\nimport os\n.*?)^```$", page)
    (shown,) = re.findall(r"(?ms)^```text\n(right: it takes part .*?)^```$", page)
    (tmp_path / "client.py").write_text(program)
    ran = hubbub("conformance", "--log", "--", sys.executable, "client.py", folder=tmp_path)
    lines = shown.splitlines()
    assert (ran.status, (ran.err + ran.out).splitlines()[-len(lines) :]) == (0, lines)


def test_a_client_that_does_nothing_does_not_conform(tmp_path: Path) -> None:
    ran = hubbub("conformance", "--json", "--", sys.executable, "-c", "raise SystemExit(3)")
    assert (ran.status, ran.json["conforms"], ran.json["accepted"], ran.json["exit_status"]) == (1, False, 0, 3)
    assert {each["seen"] for each in ran.json["checks"]} == {0}
    ran = hubbub("conformance", "--", tmp_path / "none")
    assert (ran.status, "cannot be started" in ran.err) == (2, True)


def test_without_a_command_it_waits_for_clients(tmp_path: Path) -> None:
    (tmp_path / "draft.toml").write_text(LATER_DRAFT)
    command = [sys.executable, "-m", "hubbub.cli.main", "conformance", "--out", tmp_path / "client", "--no-faults"]
    command += ["--task", tmp_path / "draft.toml"]
    pipe = subprocess.PIPE
    with started_program(command, stdout=pipe, stderr=pipe, text=True) as running:
        assert running.stderr is not None
        assert "planning the task" in running.stderr.readline()
        assert "conformance.json has what a client needs" in running.stderr.readline()
        running.send_signal(signal.SIGINT)
        said, _ = running.communicate(timeout=PATIENCE)
    assert running.returncode == 1
    assert said.splitlines()[-1] == "it does not conform: 10 checks, 0 submissions accepted"
