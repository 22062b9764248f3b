"""What a program starts runs the installed code, whatever lies in the folder in which it was started."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hubbub.deploy.local.pipeline import LocalPipeline
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.task import Draft, Privacy
from hubbub.queries.questions.histogram import Histogram
from hubbub.service.processes import subprocesses
from hubbub.service.processes.opening_pool import OpeningPool
from support.patience import PATIENCE
from support.source_tree import MODULES

PLANTED = ("cryptography", "pickle", "grpc", "hubbub", "structlog", "numpy")
"""Names of modules that every process with keys imports."""

MARKER = "was_run"


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, in which modules lie that say so when they are run."""
    folder = tmp_path / "here"
    folder.mkdir()
    for name in PLANTED:
        (folder / f"{name}.py").write_text(f"open({str(folder / MARKER)!r}, 'a').write('{name} ')\n")
    monkeypatch.chdir(folder)
    # The folder in which a test is run must not decide how Python looks for modules.
    monkeypatch.delenv(subprocesses.SAFE_PATH, raising=False)
    return folder


def was_run(folder: Path) -> str:
    marker = folder / MARKER
    return marker.read_text() if marker.exists() else ""


def test_what_is_planted_is_run_where_nothing_keeps_it_out(planted: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hubbub.shuffler.admit.opening_worker"],
        input=b"",
        check=False,
        stderr=subprocess.DEVNULL,
    )
    assert was_run(planted) != ""


@pytest.mark.parametrize(
    "module", ["hubbub.shuffler.admit.opening_worker", "hubbub.cli.main", "hubbub.deploy.audit.recording_analyzer"]
)
def test_a_child_imports_nothing_from_the_current_folder(planted: Path, module: str) -> None:
    words = ("--version",) if module.endswith("cli") else ()
    subprocess.run(
        subprocesses.command(module, *words),
        input=b"",
        env=subprocesses.environment(),
        check=False,
        capture_output=True,
        timeout=PATIENCE,
    )
    assert was_run(planted) == ""


def test_workers_that_hold_round_keys_import_nothing_from_the_current_folder(
    planted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_CREDENTIAL", "of the deployment")
    opening_pool = OpeningPool(1)
    try:
        seen = opening_pool._pool(None).submit(eval, "sorted(__import__('os').environ)").result(60)
    finally:
        opening_pool.close()
    assert was_run(planted) == ""
    assert "A_CREDENTIAL" not in seen
    assert "PATH" in seen


@pytest.mark.from_nothing
async def test_a_pipeline_imports_nothing_from_the_current_folder(
    planted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both services, and the processes that open envelopes, which the shuffler starts before it serves."""
    monkeypatch.setenv("A_CREDENTIAL", "of the deployment")
    schedule = Schedule(int(time.time()), length=3600, grace=60, rounds=1, close="operator")
    draft = Draft("kiosks", schedule, 100, Privacy(8.0, 1e-3, 16.0), (Histogram("theme", ("light", "dark")),))
    async with LocalPipeline(draft, tmp_path / "pipeline") as running:
        shown = [environ for service in running.services.values() if (environ := environ_of(service.pid)) is not None]
    assert was_run(planted) == ""
    if not shown:
        pytest.skip("nothing planted was run; but what cannot be dumped shows its environment to root alone")
    assert len(shown) == len(running.services) > 0
    assert all(b"PATH=" in each and b"A_CREDENTIAL" not in each for each in shown)


def environ_of(pid: int) -> bytes | None:
    """The environment of a process; None where the system does not show it, as of one that cannot be dumped."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except (PermissionError, FileNotFoundError):
        return None


# The demo is a pipeline: `test_a_pipeline_imports_nothing_from_the_current_folder`.
@pytest.mark.exhaustive
def test_the_demo_imports_nothing_from_the_current_folder(planted: Path) -> None:
    script = Path(sys.executable).with_name("hubbub")
    subprocess.run([script, "demo", "--devices", "300"], check=True, capture_output=True, timeout=PATIENCE)
    assert was_run(planted) == ""


def test_a_child_is_given_few_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "LD_PRELOAD": "/opt/other.so",
        "A_CREDENTIAL": "secret",
        "PYTHONPATH": ".:/opt/ours::relative",
        "PYTHONSTARTUP": "x.py",
        "LC_ALL": "C.UTF-8",
        "HUBBUB_TRACEBACK": "1",
    }.items():
        monkeypatch.setenv(name, value)
    given = subprocesses.environment({"MORE": "yes"})
    assert not {"LD_PRELOAD", "A_CREDENTIAL", "PYTHONSTARTUP"} & given.keys()
    assert (given["PYTHONPATH"], given["LC_ALL"], given["HUBBUB_TRACEBACK"]) == ("/opt/ours", "C.UTF-8", "1")
    assert (given["MORE"], given[subprocesses.SAFE_PATH]) == ("yes", "1")
    monkeypatch.setenv("PYTHONPATH", ".")
    assert "PYTHONPATH" not in subprocesses.environment()


ISOLATION = """
import subprocess
from hubbub.service.processes import subprocesses
command = subprocesses.command("site")
print(command[1:command.index("-m")])
environment = subprocesses.environment()
print(environment.get("PYTHONNOUSERSITE"), environment.get("PYTHONUSERBASE"))
"""


@pytest.mark.parametrize(
    ("options", "variables", "wanted"),
    [
        ((), {}, "('-P',)\nNone None\n"),
        (("-s",), {}, "('-P', '-s')\nNone None\n"),
        (("-E", "-s"), {}, "('-P', '-E', '-s')\nNone None\n"),
        (("-I",), {}, "('-P', '-I')\nNone None\n"),
        ((), {"PYTHONNOUSERSITE": "1"}, "('-P', '-s')\n1 None\n"),
        ((), {"PYTHONUSERBASE": "/opt/people"}, "('-P',)\nNone /opt/people\n"),
        ((), {"PYTHONUSERBASE": "people"}, "('-P',)\nNone None\n"),
    ],
)
def test_a_child_is_as_isolated_as_its_parent(options: tuple[str, ...], variables: dict[str, str], wanted: str) -> None:
    names = ("PYTHONNOUSERSITE", "PYTHONUSERBASE")
    given = {name: value for name, value in os.environ.items() if name not in names} | variables
    done = subprocess.run(
        [sys.executable, *options, "-c", ISOLATION],
        env=given,
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    )
    assert done.stdout == wanted


def test_programs_are_started_in_one_place() -> None:
    """Who starts Python by hand would forget the one or the other."""
    starts = [path.name for path in MODULES if "sys.executable" in path.read_text() and path.name != "subprocesses.py"]
    assert starts == []
