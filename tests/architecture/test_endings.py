"""A test that fails ends what it started: else the process hangs or crashes, and other tests fail of its warnings."""

import ast
import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.ended_with_test import opened_server, started_program
from support.patience import PATIENCE, pause
from support.postgres import remove_orphans
from support.source_tree import ROOT, parsed

TESTS = [path for path in (ROOT / "tests").rglob("*.py") if path.parent.name != "bench"]
OWN = ROOT / "tests" / "support" / "ended_with_test.py"
ENDS = {"close", "kill", "stop", "terminate"}
"""Methods that end something."""

BEGIN = ("new_server", "Popen", "contextmanager")
"""Words without which a module is not looked at."""

Manager = ast.AsyncFunctionDef | ast.FunctionDef


def name_of(call: ast.expr) -> str:
    """The last part of the name that a call calls; "" if it is no call of a name."""
    function = call.func if isinstance(call, ast.Call) else None
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def ends(*nodes: ast.stmt) -> bool:
    """Whether something is ended in there."""
    inside = (each for node in nodes for each in ast.walk(node))
    return any(isinstance(each, ast.Call) and name_of(each) in ENDS for each in inside)


def left_by_a_failure(source: str) -> Iterator[int]:
    """The lines that start something which the failure of a test leaves."""
    for node in ast.walk(parsed(source)) if any(each in source for each in BEGIN) else ():
        if isinstance(node, ast.Call) and name_of(node) == "new_server":
            yield node.lineno
        if isinstance(node, ast.With) and any(name_of(item.context_expr) == "Popen" for item in node.items):
            last = node.body[-1]
            if not isinstance(last, ast.Try) or not ends(*last.finalbody):
                yield node.lineno
        if isinstance(node, Manager) and any("contextmanager" in ast.unparse(each) for each in node.decorator_list):
            yield from unguarded(node.body)


def unguarded(body: list[ast.stmt]) -> Iterator[int]:
    """The lines after a manager's yield that end something, and are passed over if what is managed fails."""
    yielded = False
    for statement in body:
        if yielded and ends(statement):
            yield statement.lineno
        yielded = yielded or any(isinstance(each, ast.Yield) for each in ast.walk(statement))
        if isinstance(statement, ast.With | ast.AsyncWith | ast.Try):
            yield from unguarded(statement.body)


def test_no_test_leaves_a_server_or_a_program_when_it_fails() -> None:
    sources = {str(path.relative_to(ROOT)): path.read_text() for path in TESTS if path not in (OWN, Path(__file__))}
    found = {name: list(left_by_a_failure(source)) for name, source in sources.items()}
    assert {name: lines for name, lines in found.items() if lines} == {}, (
        "use support.ended_with_test, or try … finally"
    )


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("server = grpc_server.new_server()", [1]),
        ("with Popen(command) as program:\n    program.wait()", [1]),
        ("with Popen(command) as program:\n    try:\n        look()\n    finally:\n        program.kill()", []),
        ("@contextmanager\ndef running():\n    yield\n    server.stop()", [4]),
        ("@contextmanager\ndef running():\n    try:\n        yield\n    finally:\n        server.stop()", []),
    ],
)
def test_the_check_itself_finds_what_is_left(source: str, lines: list[int]) -> None:
    assert list(left_by_a_failure(source)) == lines


def test_a_program_is_killed_with_the_test_that_fails(tmp_path: Path) -> None:
    with (
        pytest.raises(ZeroDivisionError),
        started_program([sys.executable, "-c", "input()"], stdin=-1) as program,
    ):
        raise ZeroDivisionError
    assert program.returncode == -9


@pytest.mark.parametrize("starts", [False, True])
async def test_a_server_is_stopped_with_the_test_that_fails(starts: bool) -> None:
    servers = []

    async def failing() -> None:
        async with opened_server() as server:
            servers.append(server)
            if starts:
                await server.start()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await failing()
    # It returns whether the time was over before.
    assert not await servers[0].wait_for_termination(5.0)


LEFT = """
import os, signal
from support.postgres import OwnServer
print(OwnServer().folder, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def is_over(process: Path) -> bool:
    """Whether a process has ended, whoever has to wait for it."""
    try:
        return "State:\tZ" in (process / "status").read_text()
    except OSError:
        return True


async def over(process: Path) -> None:
    async with asyncio.timeout(PATIENCE):
        while not is_over(process):
            await pause()


def test_what_killed_tests_left_of_postgresql_is_removed_by_the_next_that_need_it() -> None:
    around = {**os.environ, "PYTHONPATH": str(ROOT / "tests")}
    killed = subprocess.run([sys.executable, "-c", LEFT], env=around, capture_output=True, text=True, check=False)
    folder = Path(killed.stdout.strip())
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    server = Path("/proc", (folder / "postmaster.pid").read_text().split()[0])
    assert not is_over(server)
    remove_orphans()
    assert not folder.exists()
    asyncio.run(over(server))


def test_a_failure_that_is_no_text_is_reported_and_the_next_test_is_run(tmp_path: Path) -> None:
    """Else the process that runs the tests ends, with the tests that it was given."""
    (tmp_path / "test_odd.py").write_text('def test_odd():\n    assert 0, "\\udcff"\n\ndef test_next():\n    pass\n')
    command = [sys.executable, "-m", "pytest", "-q", "-n", "1", "-p", "support.failure_reports", str(tmp_path)]
    told = subprocess.run(
        [*command, "-c", os.devnull, "-p", "no:cacheprovider"],
        env={**os.environ, "PYTHONPATH": str(ROOT / "tests"), "PYTEST_ADDOPTS": ""},
        capture_output=True,
        timeout=PATIENCE,
    )
    assert b"1 failed, 1 passed" in told.stdout, told
