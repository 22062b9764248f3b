"""No command shows a traceback, whatever it is given and wherever it is started: all commands, all their options.

Commands and options are read off the command line itself, so a new one is covered without a line here. What runs in
this process is tried with every bad value; processes of their own are for what only a real one has.
"""

from __future__ import annotations

import errno
import importlib
import importlib.util
import io
import json
import marshal
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hubbub.cli.main import COMMANDS, main
from hubbub.cli.terminal import stdio
from hubbub.deploy.init.folders import initialize
from hubbub.planning.simulate import table_files
from support.commands import LEAVES, Leaf, given, is_flag
from support.patience import PATIENCE
from support.thoroughness import EXHAUSTIVE

HUBBUB = (sys.executable, "-m", "hubbub.cli.main")
FAULTS = ("Traceback", "a fault in hubbub", "Exception ignored")

NUMBERS = ("nan", "inf", "-inf", "-1", "0", "1e400", "1e-320", "9" * 5000, "9" * 400, "", "x", "0x10", "1/0", "½", "٣")
TEXTS = (
    "",
    "\udcff",
    "日本",
    "a" * 5000,
    "=",
    "1/0",
    "nan",
    "inf",
    "-1",
    "[",
    "x" * 64 + ":1:2",
    "9" * 5000,
    "\x1b[31m",
)
FILES = (
    *("", ".", "..", "/dev/null", "missing", "folder", "empty", "garbage", "\udcff\udcfe", "日本", "a" * 300),
    *("loop", "loop/x", "dangling", "data.csv/", "data.csv/x", "socket", "deep.json", "utf16.csv", "-", "new\nline"),
    "x/" * 3000,
)


TASK = """
[task]
name = "kiosks"
start = 2096-01-01T00:00:00Z
length = "24h"
grace = "10m"
minimum_reports = 2

[privacy]
epsilon = 10
delta = 0.1
large_delta = "few devices, none of them anybody's"

[[query]]
name = "theme"
kind = "histogram"
categories = ["light", "dark"]
"""


def bad(leaf: Leaf, parameter: Any) -> tuple[str, ...]:
    read_as = leaf.kind(parameter)
    if issubclass(read_as, Path):
        return FILES
    return NUMBERS if read_as in (int, float) else TEXTS


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A deployment, data, and files that hold nothing that anybody wants."""
    folder = tmp_path_factory.mktemp("prepared")
    initialize(folder / "deployment")
    (folder / "task.toml").write_text(TASK)
    (folder / "data.csv").write_text("theme,session\nlight,1\ndark,\n")
    (folder / "folder").mkdir()
    (folder / "empty").touch()
    (folder / "garbage").write_bytes(bytes(range(256)))
    (folder / "loop").symlink_to("loop")
    (folder / "dangling").symlink_to("nowhere")
    (folder / "deep.json").write_text("[" * 100_000)
    (folder / "utf16.csv").write_text("theme\nlight\n", "utf-16")
    return folder


@pytest.fixture
def here(prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of them, and the folder that commands run in."""
    shutil.copytree(prepared, tmp_path, symlinks=True, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
    return tmp_path


def status_of(words: list[str], monkeypatch: pytest.MonkeyPatch, encoding: str = "utf-8") -> tuple[int, str]:
    """Run a command in this process; return its exit status and what it printed."""
    printed = io.BytesIO()
    stream = io.TextIOWrapper(printed, encoding, "backslashreplace", write_through=True)
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr(sys, "stderr", stream)
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert isinstance(ended.value.code, int), words
    # The parser writes its help as UTF-8 where the stream's encoding is ASCII.
    return ended.value.code, printed.getvalue().decode("utf-8" if encoding == "ascii" else encoding)


RUN_SOMETHING = {"demo", "load", "shuffler", "analyzer", "conformance"}
"""Commands that start processes or serve, where what they are given is in order: not run with usual values here."""


def ending_at_once(leaf: Leaf, parameter: Any) -> list[str]:
    """More words, by which a command that would run something does not, though this parameter is in order."""
    if leaf.name == "demo":
        return ["--data", "missing"]
    if leaf.name == "load":
        return ["missing"] if parameter.name != "settings" else []
    # A client that ends at once: without one it waits for clients.
    return ["false"] if leaf.name == "conformance" and parameter.name != "client" else []


TRIED = [pytest.param(leaf, id=leaf.name) for leaf in LEAVES]


@pytest.mark.parametrize("leaf", TRIED)
def test_no_value_of_any_option_shows_a_traceback(leaf: Leaf, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert here
    found = []
    for place, parameter in enumerate(leaf.parameters):
        if is_flag(parameter):
            continue
        # Parameters take turns in a usual run: each has every tenth value, and the next one the next values.
        for value in bad(leaf, parameter) if EXHAUSTIVE else bad(leaf, parameter)[place % 10 :: 10]:
            words = [*given(leaf, parameter, value), "--json", *ending_at_once(leaf, parameter)]
            status, said = status_of(words, monkeypatch)
            if status not in (0, 1, 2) or any(fault in said for fault in FAULTS):
                found.append((" ".join(words)[:300], said[-400:]))
    assert found == []


WITH_FILES = [
    pytest.param(leaf, each, id=f"{leaf.name} {each.opts[0]}")
    for leaf in LEAVES
    for each in leaf.parameters
    if issubclass(leaf.kind(each), Path)
]


@pytest.mark.sampled(20)
@pytest.mark.parametrize(("leaf", "parameter"), WITH_FILES)
def test_a_link_to_itself_is_refused_by_name(
    leaf: Leaf, parameter: Any, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python's own `Path.resolve` has an error for it that is none of the system's."""
    assert here
    status, said = status_of([*given(leaf, parameter, "loop"), *ending_at_once(leaf, parameter)], monkeypatch)
    assert status in (0, 1, 2), said
    assert not any(fault in said for fault in FAULTS), said


class Unwritable(io.RawIOBase):
    """A stream that fails as a full disk does, or a pipe whose reader has left."""

    def __init__(self, number: int) -> None:
        self._number = number

    def writable(self) -> bool:
        return True

    def write(self, _: object) -> int:
        raise OSError(self._number, os.strerror(self._number))

    def close(self) -> None:
        """Stay open: what could not be written would be written again."""


@pytest.mark.sampled(20)
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EPIPE], ids=["full", "reader left"])
@pytest.mark.parametrize("leaf", LEAVES, ids=lambda leaf: leaf.name)
def test_what_cannot_be_printed_is_a_failure_that_says_so(
    leaf: Leaf, number: int, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert here
    for last in ("--json", "--help"):
        messages = io.StringIO()
        # A stream of its own each time; it keeps what it could not write, so it is never closed.
        stream = stdio.Output(io.BufferedWriter(Unwritable(number)), "utf-8")
        monkeypatch.setattr(sys, "stdout", stream)
        monkeypatch.setattr(sys, "stderr", messages)
        with pytest.raises(SystemExit) as ended:
            main([*leaf.words, "--unknown", last] if last == "--json" else [*leaf.words, last])
        assert ended.value.code == (1 if number == errno.ENOSPC else 141)
        expected = "error: stdout cannot be written: No space left on device\n" if number == errno.ENOSPC else ""
        assert messages.getvalue() == expected


@pytest.mark.sampled(20)
@pytest.mark.parametrize("columns", ["0", "1", "40"])
@pytest.mark.parametrize("leaf", LEAVES, ids=lambda leaf: leaf.name)
def test_narrow_terminals_and_poor_encodings_get_their_text(
    leaf: Leaf, columns: str, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert here
    monkeypatch.setenv("COLUMNS", columns)
    for words in ([*leaf.words, "--help"], given(leaf)):
        for encoding in ("ascii", "latin-1"):
            if leaf.name in RUN_SOMETHING and "--help" not in words:
                continue
            status, said = status_of(words, monkeypatch, encoding)
            assert status in (0, 1, 2), (words, said)
            assert not any(fault in said for fault in FAULTS), (words, said)


def run(script: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Run a line of the shell in which `$hubbub` is the command."""
    around = {**os.environ, "hubbub": " ".join(HUBBUB), **environment}
    return subprocess.run(
        ["bash", "-c", script], cwd=folder, env=around, capture_output=True, timeout=PATIENCE, check=False
    )


FULL = b"error: stdout cannot be written: No space left on device"
ODD_STARTS = {
    "full stdout": ("$hubbub init new --json > /dev/full", 1, FULL),
    "full stdout, help": ("$hubbub --help > /dev/full", 1, FULL),
    "full stdout, help, ASCII": ("PYTHONIOENCODING=ascii $hubbub --help > /dev/full", 1, FULL),
    "full stderr": ("$hubbub plan missing 2> /dev/full", 1, b""),
    "closed stdout": ("$hubbub init new >&-", 0, b""),
    "closed stderr": ("$hubbub plan missing 2>&-", 1, b""),
    "all closed": ("$hubbub init new <&- >&- 2>&-", 0, b""),
    "reader left": ("set -o pipefail; $hubbub --help | true; exit ${PIPESTATUS[0]}", 141, b""),
    "removed folder": ("mkdir gone; cd gone; rmdir ../gone; $hubbub init new", 1, b"error: "),
    "unwritable folder": ("$hubbub init /proc/new", 1, b"error: /proc/new: "),
    "no surroundings": ("env -i PATH=\"$PATH\" $hubbub plan task.toml", 0, b""),
    "ASCII files": ("LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0 $hubbub init new", 0, b""),
    "odd values": (("MPLBACKEND=nonsense SOURCE_DATE_EPOCH=today $hubbub account plot --mechanism krr --categories 4"
                   " --gamma 1/4 --delta 1e-6 --over reports --from 10 --to 20 --points 2 --bound local --out new.svg"),
                   0, b""),
    "ASCII": ("LC_ALL=C PYTHONUTF8=0 $hubbub plan task.toml", 0, b""),
    "ASCII, JSON": ("PYTHONIOENCODING=ascii $hubbub plan 日本 --json", 1, b"error: \\u65e5\\u672c: "),
    "no text": ("$hubbub plan $'\\xff' --json", 1, b"error: \\udcff: "),
    "no terminal": ("TERM=dumb COLUMNS=1 $hubbub plan task.toml", 0, b""),
}  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ODD_STARTS)
def test_processes_that_are_started_oddly_end_with_a_sentence(name: str, here: Path) -> None:
    script, status, says = ODD_STARTS[name]
    done = run(script, here)
    assert (done.returncode, done.stderr) == (status, done.stderr), done
    assert says in done.stderr
    assert not any(fault.encode() in done.stderr for fault in FAULTS), done.stderr
    if name == "no text":
        assert json.loads(done.stdout)["error"].startswith("\udcff: ")


def test_a_closed_stdin_is_an_empty_one(here: Path) -> None:
    """As a job of cron or of another program may have it: answers are then missing, which is said."""
    script = (
        "from hubbub.cli.terminal import stdio; stdio.prepare(); import sys; print(sys.stdin.isatty(), [*sys.stdin])"
    )
    done = run(f"{sys.executable} -c '{script}' <&-", here)
    assert (done.stdout, done.stderr) == (b"False []\n", b"")


INTERRUPT = """
import os, signal, sys
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
from hubbub.cli.main import main
sys.argv[1:] = ["plan", "task.toml"]
main()
"""


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "module",
    ["hubbub.cli.registry", "typer", "hubbub.cli.commands.plan", "hubbub.planning.plan", "scipy.special"],
)
def test_an_interrupt_while_libraries_load_is_silent(module: str, here: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPT.format(module=module)],
        cwd=here,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


def test_the_package_itself_loads_nothing_in_which_an_interrupt_would_show() -> None:
    script = "import sys; before = set(sys.modules); import hubbub; print(set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert done.stdout == "{'hubbub'}\n"


@pytest.mark.parametrize(
    ("raised", "says"),
    [
        (MemoryError(), "there is not enough memory; free some, "),
        (RuntimeError("can't start new thread"), "the system starts no more threads; raise their limit (ulimit -u)"),
        (pa.ArrowMemoryError("malloc of size 9 failed"), "there is not enough memory"),
        (ImportError("libarrow.so.2600: failed to map segment from shared object"), "there is not enough memory"),
        (
            pa.ArrowException("Unknown error: Failed to launch worker thread: Resource temporarily unavailable"),
            "the system starts no more threads",
        ),
    ],
)
def test_what_the_machine_does_not_give_is_no_fault(
    raised: Exception, says: str, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacking(*_: object) -> None:
        raise raised

    monkeypatch.setattr(table_files, "_read", lacking)
    assert here
    status, said = status_of(["draft", "data.csv"], monkeypatch)
    assert (status, said.startswith(f"error: {says}")) == (1, True), said


def test_compiled_code_that_a_full_disk_cut_short_is_named(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python leaves such a file, and importing it is an EOFError, of which the parser keeps no word."""
    code = marshal.dumps(compile("pass", "cut.py", "exec"))
    (here / "cut.pyc").write_bytes(importlib.util.MAGIC_NUMBER + bytes(12) + code[:40])
    monkeypatch.syspath_prepend(here)
    monkeypatch.setattr(table_files, "_read", lambda *_: importlib.import_module("cut"))
    status, said = status_of(["draft", "data.csv"], monkeypatch)
    cut = "cut.pyc is cut short, as a full disk leaves it; remove it: Python writes it anew\n"
    assert (status, said.lstrip("\n")) == (1, f"error: {here}/{cut}")


def test_another_early_end_of_a_file_is_shown_with_its_place(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def ending(*_: object) -> None:
        raise EOFError("nothing more comes")

    monkeypatch.setattr(table_files, "_read", ending)
    assert here
    status, said = status_of(["draft", "data.csv"], monkeypatch)
    assert (status, "EOFError in table_files.py" in said, "nothing more comes" in said) == (1, True, True), said


def test_a_fault_in_code_without_a_module_is_reported_too(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def faulty(*_: object) -> None:
        exec("raise KeyError('gone')", {})  # noqa: S102 - as a library's own code is made

    monkeypatch.setattr(table_files, "_read", faulty)
    assert here
    status, said = status_of(["draft", "data.csv"], monkeypatch)
    assert status == 1
    assert "a fault in hubbub, please report it: KeyError in table_files.py:" in said


def test_a_fault_is_one_line_and_shows_its_traceback_where_that_is_asked_for(here: Path) -> None:
    script = "import hubbub.planning.plan as p, sys\ndef plan(_): raise KeyError('gone')\np.plan = plan\n"
    script += "from hubbub.cli.main import main\nsys.argv[1:] = ['plan', 'task.toml', '--json']\nmain()"
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=here, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 1
    assert json.loads(done.stdout)["error"].startswith("a fault in hubbub, please report it: KeyError in plan.py:")
    assert done.stderr.count("\n") == 1
    around = {**os.environ, "HUBBUB_TRACEBACK": "1"}
    shown = subprocess.run(command, cwd=here, env=around, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert shown.returncode == 1
    assert "Traceback" in shown.stderr


def test_bad_use_is_2_and_failure_is_1_and_both_are_json(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert here
    for words, status in (
        (["nothing"], 2),
        (["plan"], 2),
        (["plan", "task.toml", "--unknown"], 2),
        (["health", "nobody", "x"], 2),
        (["account", "delta", "--mechanism", "krr", "--reports", "x", "--epsilon", "1"], 2),
        (["account", "delta", "--mechanism", "krr", "--reports", "9", "--epsilon", "nan"], 2),
        (["identity", ""], 2),
        (["plan", "missing"], 1),
    ):
        ended, said = status_of([*words, "--json"], monkeypatch)
        assert ended == status, said
        document, _ = json.JSONDecoder().raw_decode(said)
        assert list(document) == ["error"]


@pytest.mark.sampled(10)
@pytest.mark.parametrize("leaf", LEAVES, ids=lambda leaf: leaf.name)
def test_h_is_help(leaf: Leaf, monkeypatch: pytest.MonkeyPatch) -> None:
    assert status_of([*leaf.words, "-h"], monkeypatch) == status_of([*leaf.words, "--help"], monkeypatch)


def test_every_command_is_among_them() -> None:
    assert {leaf.words[0] for leaf in LEAVES} == set(COMMANDS)


PEAK = """
import contextlib, sys
from pathlib import Path
from hubbub.cli.main import main
with contextlib.suppress(SystemExit):
    main(sys.argv[1:])
sys.stderr.write(next(line for line in Path("/proc/self/status").read_text().splitlines() if "VmPeak" in line))
"""


def test_a_limited_address_space_is_not_reserved_by_the_gibibyte(here: Path) -> None:
    # Arrow starts a thread for each core: eight on any machine.
    environment = {**os.environ, "OMP_NUM_THREADS": "8"}
    program = [sys.executable, "-c", PEAK, "simulate", "task.toml", "--data", "data.csv"]
    # So much that nothing ever lacks: what is left free is measured.
    limited = ["bash", "-c", 'ulimit -v 16777216; exec "$@"', "-", *program]
    ran = subprocess.run(limited, cwd=here, env=environment, capture_output=True, text=True, timeout=PATIENCE)
    found = re.fullmatch(r"VmPeak:\s+(\d+) kB", ran.stderr)
    assert found is not None, ran.stderr
    assert int(found[1]) < 2**20
