"""Whatever words a command is given, it says what is wrong, in one way, and then has changed nothing.

Words are drawn from the command line itself: options in any order, twice, or with one that excludes them, and values of
every kind. A new command is among them without a line here.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import given as drawing
from hypothesis import strategies as st

from hubbub.deploy.init.folders import initialize
from support.cli import Ran, hubbub_here
from support.commands import LEAVES, Leaf, is_flag, usual, written

FAULTS = ("Traceback", "a fault in hubbub", "Exception ignored", "Warning: ", "[Errno", "PosixPath", "object at 0x")

UNREADABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]")
"""What a terminal would obey."""

NOT_HERE = {"demo", "load", "shuffler", "hop", "analyzer", "conformance", "dashboard", "audit"}
"""Commands that start processes or serve."""

LONG = {"account longitudinal", "account plot", "account calibrate"}
"""Commands that compute for seconds with usual values; `tests/cli/test_never_a_traceback.py` tries them, too."""

TRIED = [leaf for leaf in LEAVES if leaf.words[0] not in NOT_HERE and leaf.name not in LONG]

ENDLESS = {"--watch"}
"""Options with which a command runs until Ctrl-C."""

FILES = (
    *("", ".", "..", "/dev/null", "missing", "missing/x", "folder", "empty", "garbage", "loop", "dangling", "data.csv"),
    *("data.csv/x", "task.toml", "task.json", "half.json", "deployment", "deployment/operator/identity.pem", "--json"),
    *("deployment/operator/operator.toml", "deployment/client/client.toml", "new\nline", "\udcff", "日本", "a" * 300),
)
TEXTS = (
    "",
    " ",
    "=",
    "theme",
    "theme=",
    "theme:1:0",
    "\x1b[31m",
    "\u202e",
    "x\ny",
    "\udcff",
    "日本",
    "-1",
    "%s",
    "a,,a",
)
NUMBERS = (
    "",
    "nan",
    "-inf",
    "-1",
    "0",
    "1e400",
    "1e-400",
    "5e-324",
    "9" * 400,
    "x",
    "٣",
    "1/0",
    "1,5",
    "200%",
    "1",
    "3",
)


def values(leaf: Leaf, parameter: Any) -> st.SearchStrategy[str]:
    read_as = leaf.kind(parameter)
    odd = FILES if issubclass(read_as, Path) else NUMBERS if read_as in (int, float) else TEXTS
    return st.just(usual(leaf, parameter)) | st.sampled_from(odd)


@st.composite
def calls(draw: st.DrawFn) -> tuple[list[str], list[str]]:
    """The words of a command, and what it is given."""
    leaf = draw(st.sampled_from(TRIED))
    # The same one may be drawn twice.
    parameters = [each for each in leaf.parameters if each.opts[0] not in ENDLESS]
    chosen = draw(st.lists(st.sampled_from(parameters), max_size=4))
    given = [(each, "" if is_flag(each) else draw(values(leaf, each))) for each in chosen]
    return list(leaf.words), written(leaf, given)[len(leaf.words) :]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("words")
    initialize(made / "deployment")
    (made / "data.csv").write_text("theme,session\nlight,1\ndark,2\n")
    draft = made / "deployment/operator/task.toml"
    shutil.copy(draft, made / "task.toml")
    ran = hubbub_here("plan", draft, "--out", made / "task.json", "--no-compare")
    assert ran.status == 0, ran.err
    content = (made / "task.json").read_text()
    (made / "half.json").write_text(content[: len(content) // 2])
    (made / "folder").mkdir()
    (made / "empty").touch()
    (made / "garbage").write_bytes(bytes(range(256)))
    (made / "loop").symlink_to("loop")
    (made / "dangling").symlink_to("nowhere")
    return made


def contents(folder: Path) -> Mapping[str, str]:
    """What is in a folder: each file's mode and content, each link's target."""
    found = {}
    for place, folders, files in os.walk(folder):
        for name in [*folders, *files]:
            path = Path(place, name)
            held = path.readlink() if path.is_symlink() else path.read_bytes() if path.is_file() else b""
            # A device's state is made by the first command that looks at it.
            if not name.startswith("state.db"):
                found[str(path.relative_to(folder))] = (
                    f"{path.lstat().st_mode} {hashlib.sha256(os.fsencode(held)).hexdigest()}"
                )
    return found


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@drawing(calls(), st.booleans())
def test_a_command_says_what_is_wrong_and_has_then_changed_nothing(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, call: tuple[list[str], list[str]], as_json: bool
) -> None:
    here = tmp_path_factory.mktemp("here") / "folder"
    shutil.copytree(folder, here, symlinks=True)
    before = contents(here)
    command, words = call
    try:
        ran = hubbub_here(*command, *["--json"] * as_json, *words, folder=here)
        check(ran, as_json)
        if ran.status == 2:
            assert contents(here) == before
    finally:
        shutil.rmtree(here.parent)


def check(ran: Ran, as_json: bool) -> None:
    assert ran.status in (0, 1, 2), ran
    assert not any(fault in ran.out + ran.err for fault in FAULTS), ran
    assert not UNREADABLE.search(ran.out + ran.err), ran
    # `health --json` tells in its document alone what does not serve.
    if ran.status and (ran.err or ran.status == 2 or not ran.out.startswith("{")):
        assert "rror: " in ran.err, ran
    if as_json:
        assert ran.status != 2 or list(json.loads(ran.out)) == ["error"], ran
        json.loads(ran.out)
