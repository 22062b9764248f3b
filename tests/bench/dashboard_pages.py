"""CPU time and memory of the dashboard's pages on a year of daily rounds with many questions.

    python tests/bench/dashboard_pages.py [--rounds 365] [--queries 20]

The rounds are made up: one round is counted, and its results are signed again as every other round's. They are not
verified, as a dashboard verifies each round once. A page is looked at once to make what it keeps, then again and again;
the median of the CPU seconds of one process is printed, server and client together. That is done before all rounds
were read in the background, and after.

That process is not the one that made the rounds, and reads each round from a file when it needs it, as a dashboard
reads it from an analyzer. So its largest memory is that of a dashboard.
"""

from __future__ import annotations

import argparse
import pickle
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from hubbub.protos.messages import ListedTask
from hubbub.protos.records.results import RoundId, RoundResults
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.task import Privacy, Task
from hubbub.queries.questions.histogram import Histogram
from hubbub.results import ResultsTable, Trust
from support.certificates import content_of, counts, encode
from support.dashboard import PARTIES, Browser, site_of
from support.krr_queries import krr_query
from support.samples import START, sample_task, signed

CATEGORIES = tuple(f"category {number}" for number in range(10))
DEVICES = 2000


class FromDisk:
    """Reads each round from a file, and verifies nothing."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.signed: SignedTask = pickle.loads((folder / "task").read_bytes())  # noqa: S301 - made by this program
        self._rounds: tuple[RoundId, ...] = pickle.loads((folder / "rounds").read_bytes())  # noqa: S301 - likewise

    def tasks(self) -> tuple[ListedTask, ...]:
        return (ListedTask(self.signed.task.id, self.signed.task.name),)

    def task(self, _task: str) -> SignedTask:
        return self.signed

    def rounds(self, _task: str | None = None) -> tuple[RoundId, ...]:
        return self._rounds

    def read(self, _task: str | None = None, rounds: Sequence[int] | None = None) -> ResultsTable:
        return ResultsTable([self._held(number) for number in rounds or ()], Trust(True))

    def look(self, _task: str, number: int) -> ResultsTable:
        return ResultsTable([self._held(number)], Trust(verified=False))

    def _held(self, number: int) -> RoundResults:
        found: RoundResults = pickle.loads((self._folder / f"{number}").read_bytes())  # noqa: S301 - likewise
        return found


def write(folder: Path, task: Task, rounds: Sequence[RoundResults]) -> None:
    """Write what `FromDisk` reads."""
    contents = {"task": signed(task, PARTIES), "rounds": tuple(each.id for each in rounds)}
    for name, content in {**contents, **{str(each.id.round): each for each in rounds}}.items():
        (folder / name).write_bytes(pickle.dumps(content))


def year(rounds: int, queries: int) -> tuple[Task, list[RoundResults]]:
    """A task with so many histograms, and results of all its rounds."""
    from hubbub.analyzer.records import ReceivedBatch
    from hubbub.analyzer.results import results_of
    from hubbub.protos.messages import Committed
    from hubbub.protos.records.batch import BatchId

    task = sample_task(
        PARTIES,
        minimum_reports=1000,
        schedule=Schedule(START, length=86_400, grace=60, rounds=rounds + 1),
        queries=tuple(krr_query(Histogram(f"question-{number}", CATEGORIES), 2**29) for number in range(queries)),
        privacy=Privacy(epsilon=10.0, delta=1e-5, epsilon_local=100.0, epsilon_total=100.0),
    )
    content = content_of(task, PARTIES, [counts(task, 0, DEVICES)])
    batches = []
    for index, query in enumerate(task.queries):
        sent = b"".join(query.randomize(device % 10, bytes_of) for device in range(DEVICES))
        counted = query.randomizer.tally(sent).counts.astype("<i8").tobytes()
        identity, committed = BatchId(task.id, 0, index), Committed(DEVICES, {})
        document = content["batches"][index]
        batches.append(
            ReceivedBatch(identity, document, DEVICES, 0, bytes(32), DEVICES, committed, counted),
        )
    queries_of_one = results_of(task, [(0, batches)])
    found, history = [], content["all_rounds"]["history"]
    several = content_of(task, PARTIES, [counts(task, number, DEVICES) for number in range(2)])
    for number in range(rounds):
        every = [{**history[0], "round": each} for each in range(number + 1)]
        base = several if number else content
        stated = {**base, "round": number, "all_rounds": {**base["all_rounds"], "history": every}}
        which = RoundId(task.id, task.name, number)
        found.append(RoundResults(which, queries_of_one, encode(stated, PARTIES)))
    return task, found


def bytes_of(length: int) -> bytes:
    import os

    return os.urandom(length)


def cpu_of(browser: Browser, path: str, times: int) -> float:
    """The median of CPU seconds of a page, once it was looked at."""
    spent = []
    for _ in range(times):
        before = time.process_time()
        assert browser.get(path).status == 200
        spent.append(time.process_time() - before)
    return statistics.median(spent)


def looked_at(browser: Browser, here: str, newest: int, times: int) -> None:
    """Print what each page takes the first time and later."""
    pages = {
        "tasks": "/",
        "task": here,
        "round": f"{here}/round/{newest}",
        "series": f"{here}/series?query=question-1",
        "compare": f"{here}/compare",
    }
    for name, path in pages.items():
        before = time.process_time()
        size = len(browser.get(path).content)
        first = time.process_time() - before
        again = cpu_of(browser, path, times)
        sys.stdout.write(
            f"{name:8} first {1000 * first:8.0f} ms, then {1000 * again:6.1f} ms CPU, {size / 1000:6.0f} kB\n"
        )


def look(folder: Path, times: int) -> None:
    """Print what a dashboard takes that reads the rounds of a folder."""
    reader, before = FromDisk(folder), largest_memory()
    waiting: list[Callable[[], None]] = []
    browser = Browser(site_of(reader, start=waiting.append))
    here, newest = f"/task/{reader.signed.task.id.hex()}", len(reader.rounds()) - 1
    looked_at(browser, here, newest, times)
    started = time.process_time()
    waiting.pop()()
    spent = time.process_time() - started
    sys.stdout.write(f"in the background: the budget, and every round read twice, in {spent:.1f} CPU seconds\n")
    looked_at(browser, here, newest, times)
    sys.stdout.write(f"memory at most {largest_memory():.0f} MiB, {before:.0f} of them before the first look\n")


def largest_memory() -> float:
    """The largest memory of this process so far, in MiB. `getrusage` also counts what its parent had when it began."""
    found = re.search(r"^VmHWM:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) / 1024


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--rounds", type=int, default=365)
    asked.add_argument("--queries", type=int, default=20)
    asked.add_argument("--times", type=int, default=9)
    asked.add_argument("--folder", type=Path, help="look at the rounds there, which this program made")
    given = asked.parse_args()
    if given.folder is not None:
        look(given.folder, given.times)
        return
    with tempfile.TemporaryDirectory() as made:
        write(Path(made), *year(given.rounds, given.queries))
        command = [sys.executable, __file__, "--folder", made, "--times", str(given.times)]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
