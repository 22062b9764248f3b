"""Services whose standard streams are closed, or take nothing, serve all the same."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

FILL = """
import os
from hubbub.cli.terminal.stdio import prepare
prepare()
opened = os.open(os.devnull, os.O_RDONLY)
import sys
print("out"); print("err", file=sys.stderr)
sys.exit(opened)
"""

ANNOUNCE = """
import logging, sys
from hubbub.cli.terminal.readiness import announcer
logging.basicConfig(level="WARNING")
announcer("shuffler", {as_json})({{"submission": "127.0.0.1:7301"}})
"""


@pytest.mark.parametrize("closed", ["", "0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"])
def test_what_is_opened_later_never_gets_a_standard_streams_number(closed: str) -> None:
    done = subprocess.run(["/bin/sh", "-c", f'exec "$0" -c "$1" {closed}', sys.executable, FILL], check=False)
    assert done.returncode >= 3


def announced(out: Path, as_json: bool) -> subprocess.CompletedProcess[str]:
    with out.open("a") as stream:
        command = [sys.executable, "-c", ANNOUNCE.format(as_json=as_json)]
        return subprocess.run(command, stdout=stream, stderr=subprocess.PIPE, text=True, check=False)


def test_addresses_are_printed_as_one_document_where_that_is_asked_for(tmp_path: Path) -> None:
    assert announced(tmp_path / "quiet", False).returncode == 0
    assert (tmp_path / "quiet").read_text() == ""
    announced(tmp_path / "json", True)
    assert json.loads((tmp_path / "json").read_text())["addresses"] == {"submission": "127.0.0.1:7301"}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")
def test_a_full_stdout_is_logged_and_ends_nothing() -> None:
    done = announced(Path("/dev/full"), True)
    assert done.returncode == 0
    assert "the addresses could not be printed: [Errno 28]" in done.stderr
    assert "Traceback" not in done.stderr
