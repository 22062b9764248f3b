"""Which functions are entered between `Device.submit` and its receipt, in real processes.

    python tests/bench/calls.py [--json] [--list]

A device process and a shuffler process, over TLS, with an enrolled device and one question with k-ary randomized
response. Each process notes every function of hubbub that it enters, with the time; what lies between the call and the
receipt counts. A comprehension is part of the function that it stands in. Left out are imports and what they run, and
what the shuffler does whether somebody submits or not: tasks that had begun before, the metrics port, and looks at TLS
files.
"""

from __future__ import annotations

import argparse
import asyncio
import dis
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
ANSWERS = {"theme": "dark"}
COMPREHENSIONS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})
"""What Python calls code of its own in some versions and not in others."""

BY_ITSELF = frozenset({"service/transport/metrics_port.py", "service/transport/tls_reload.py"})
"""Files whose functions run in threads now and then, whether somebody submits or not."""

TASK = """
[task]
name = "way"
start = {start}
length = "1h"
grace = "1d"
rounds = 1
minimum_reports = 1000
close = "operator"
[privacy]
epsilon = 1.0
delta = 1e-6
[[query]]
name = "theme"
kind = "histogram"
randomizer = "krr"
categories = ["dark", "light"]
"""


@dataclass(frozen=True)
class Entry:
    """A function that was entered: when (seconds of the machine's clock), in which file, and in which task."""

    at: float
    file: str
    function: str
    task: str


@cache
def file_of(name: str) -> str:
    """Return a file of hubbub as it lies in the repository; empty for all others."""
    path = Path(name).resolve()
    within = path.is_relative_to(ROOT) and not path.is_relative_to(TESTS) and ".venv" not in path.parts
    return str(path.relative_to(ROOT)) if within and path.suffix == ".py" else ""


@cache
def beginning(code: CodeType) -> int:
    """Return where a function begins: one that goes on after `await` or `yield` is called there again by no means."""
    return next((each.offset for each in dis.get_instructions(code) if each.opname == "RESUME"), 0)


class _Importing(threading.local):
    """How many functions of the machinery of imports a thread is in."""

    depth = 0


class Recorder:
    """Notes every function of hubbub that this process enters from now on, in all threads."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self._importing = _Importing()

    def start(self) -> None:
        """Begin; threads that run already are not heard."""
        threading.setprofile(self._heard)
        sys.setprofile(self._heard)

    def save(self, path: Path) -> None:
        """End, and write down what was entered."""
        sys.setprofile(None)
        path.write_text(json.dumps([asdict(entry) for entry in self.entries]))

    def _heard(self, frame: FrameType, event: str, _value: object) -> None:
        code = frame.f_code
        # The machinery of imports: what it runs is not the way.
        if code.co_filename.startswith("<frozen importlib"):
            change = {"call": 1, "return": -1}.get(event, 0)
            self._importing.depth = max(0, self._importing.depth + change)
            return
        if event != "call" or self._importing.depth:
            return
        file = file_of(code.co_filename)
        if code.co_name in COMPREHENSIONS or file in BY_ITSELF:
            return
        if file and frame.f_lasti <= beginning(code):
            self.entries.append(Entry(time.monotonic(), file, code.co_qualname, _task()))


def _task() -> str:
    """Return the name of the task that runs, which no other has; empty where none does."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return ""
    return "" if task is None else task.get_name()


# The two processes


def run_shuffler(entered: Path, words: Sequence[str]) -> None:
    """Run `hubbub shuffler` with these words, and note what it enters."""
    from hubbub.cli.main import main as hubbub

    recorder = Recorder()
    recorder.start()
    try:
        hubbub(["shuffler", *words])
    finally:
        recorder.save(entered)


def run_device(entered: Path, arguments: Mapping[str, str]) -> None:
    """Submit once, and note what is entered; say when it began and ended."""
    from hubbub.client import Device

    device = Device(
        Path(arguments["task"]).read_bytes(),
        operator_key=bytes.fromhex(arguments["operator_key"]),
        shuffler_key=bytes.fromhex(arguments["shuffler_key"]),
        state=Path(arguments["state"]),
        shuffler=arguments["shuffler"],
        authority=Path(arguments["authority"]),
        ticket=bytes.fromhex(arguments["ticket"]),
    )
    recorder = Recorder()

    async def submitted() -> list[float]:
        async with device:
            recorder.start()
            begun = time.monotonic()
            await device.submit(ANSWERS)
            return [begun, time.monotonic()]

    print(json.dumps(asyncio.run(submitted())))
    recorder.save(entered)


# What they say


@dataclass(frozen=True)
class Way:
    """What one side entered, in order."""

    entries: tuple[Entry, ...]

    @property
    def functions(self) -> dict[str, list[str]]:
        """Functions by file, both in the order in which they were first entered."""
        found: dict[str, list[str]] = {}
        for entry in self.entries:
            names = found.setdefault(entry.file, [])
            if entry.function not in names:
                names.append(entry.function)
        return found

    @property
    def visits(self) -> dict[str, int]:
        """How often each file is come to from another one."""
        found: dict[str, int] = {}
        before = ""
        for entry in self.entries:
            if entry.file != before:
                found[entry.file] = found.get(entry.file, 0) + 1
            before = entry.file
        return found

    def counts(self) -> dict[str, int]:
        """How many functions in how many files, and how often the way goes from one file to another."""
        functions = self.functions
        changes = max(0, sum(self.visits.values()) - 1)
        return {"functions": sum(map(len, functions.values())), "files": len(functions), "changes": changes}


def way(entered: Path, begun: float, ended: float) -> Way:
    """Return what was entered between two times, by tasks that had not begun before."""
    entries = [Entry(**each) for each in json.loads(entered.read_text())]
    before = {entry.task for entry in entries if entry.at < begun} - {""}
    return Way(tuple(each for each in entries if begun <= each.at <= ended and each.task not in before))


async def recorded() -> dict[str, Way]:
    """Submit once through real processes; return both ways, by their sides, and both of them together."""
    from submitting import now

    from hubbub.deploy.local import LocalPipeline
    from hubbub.protos.identity.keys import Role

    with tempfile.TemporaryDirectory(prefix="hubbub-way-") as folder:
        at = {side: Path(folder) / f"{side}.json" for side in ("device", "shuffler")}
        program = (sys.executable, __file__, "--shuffler", str(at["shuffler"]))
        async with LocalPipeline(TASK.format(start=now()), programs={Role.SHUFFLER: program}) as pipeline:
            arguments = {
                "task": str(pipeline.directory / "task.json"),
                "operator_key": pipeline.operator_key.hex(),
                "shuffler_key": pipeline.shuffler_key.hex(),
                "state": str(Path(folder) / "device.db"),
                "shuffler": pipeline.shuffler,
                "authority": str(pipeline.authority),
                "ticket": pipeline.ticket("device").hex(),
            }
            command = (sys.executable, __file__, "--device", str(at["device"]), json.dumps(arguments))
            done = await asyncio.to_thread(subprocess.run, command, stdout=subprocess.PIPE, check=True)
        begun, ended = json.loads(done.stdout)
        # All that the device enters is its submission's, whatever task it is in.
        own = Way(tuple(Entry(**each) for each in json.loads(at["device"].read_text())))
        device = Way(tuple(each for each in own.entries if begun <= each.at <= ended))
        shuffler = way(at["shuffler"], begun, ended)
    return {"device": device, "shuffler": shuffler, "together": Way((*device.entries, *shuffler.entries))}


def document(ways: Mapping[str, Way]) -> dict[str, Any]:
    """Return what `--json` prints."""
    return {side: {**each.counts(), "visits": each.visits, "entered": each.functions} for side, each in ways.items()}


def table(ways: Mapping[str, Way]) -> Table:
    """Return the counts as a table."""
    found = Table(title="from Device.submit to its receipt")
    for heading in ("side", "functions", "files", "changes of file"):
        found.add_column(heading, justify="left" if heading == "side" else "right")
    for side, each in ways.items():
        found.add_row(side, *(str(count) for count in each.counts().values()))
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Record one submission and print what was entered; return the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["--shuffler"]:
        run_shuffler(Path(words[1]), words[2:])
        return 0
    if words[:1] == ["--device"]:
        run_device(Path(words[1]), json.loads(words[2]))
        return 0
    parser = argparse.ArgumentParser(description="Record the functions that one submission enters.")
    parser.add_argument("--json", action="store_true", help="print counts and names as JSON")
    parser.add_argument("--list", action="store_true", help="print the names below the counts")
    chosen = parser.parse_args(words)
    ways = asyncio.run(recorded())
    if chosen.json:
        print(json.dumps(document(ways), indent=2))
        return 0
    console = Console(width=110)
    console.print(table(ways))
    if chosen.list:
        for side in ("device", "shuffler"):
            for file, names in ways[side].functions.items():
                visits = ways[side].visits[file]
                console.print(f"{side} {file} ({visits}): {', '.join(names)}", markup=False, soft_wrap=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
