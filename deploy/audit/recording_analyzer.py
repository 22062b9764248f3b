"""Runs the attacker of an audit: an analyzer that records the reports that it opens, in order of arrival.

It runs as `python -m hubbub.deploy.audit.recording_analyzer FILE SETTINGS.toml`, in place of `hubbub analyzer`. It is
the same service, but its workers append a line of JSON to the file for every opened batch.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path

from hubbub.analyzer.server import serve
from hubbub.analyzer.settings import load
from hubbub.protos.errors import HubbubError
from hubbub.service.processes.hardening import disable_core_dumps
from hubbub.service.processes.opening_pool import Opened, OpeningJob, OpeningPool


class RecordingPool(OpeningPool):
    """Workers that record the joined reports of each batch, once all of it is open."""

    def __init__(self, file: Path, processes: int) -> None:
        super().__init__(processes)
        self._file = file
        self._writing = threading.Lock()

    def open(self, job: OpeningJob, parts: Iterable[bytes], expected: int) -> Iterator[Opened]:
        """Open a batch like `OpeningPool`, and append its reports to the file."""
        seen: list[bytes] = []
        for opened in super().open(job, parts, expected):
            seen.append(opened[0])
            yield opened
        reports = b"".join(seen).hex()
        line = json.dumps({"task": job.destination.task_id.hex(), "query": job.query, "reports": reports})
        # Batches are opened in threads: lines must not be interleaved.
        with self._writing, self._file.open("a") as file:
            file.write(line + "\n")


def read_observations(file: Path) -> dict[tuple[str, int], bytes]:
    """Return the reports of every batch that the recording analyzer opened, joined, by task id (hex) and query."""
    if not file.exists():
        return {}
    lines = (json.loads(line) for line in file.read_text().splitlines())
    return {(each["task"], each["query"]): bytes.fromhex(each["reports"]) for each in lines}


def main(words: list[str]) -> None:
    """Run the analyzer of the settings file `words[1]`; it records opened reports in the file `words[0]`."""
    file, settings = Path(words[0]), Path(words[1])
    made = partial(RecordingPool, file)
    try:
        asyncio.run(serve(load(settings), announce=_announce, new_pool=made))
    except HubbubError as error:
        sys.exit(str(error))


def _announce(addresses: Mapping[str, str]) -> None:
    """Print the addresses like `hubbub analyzer --json`, for the process that started this one."""
    sys.stdout.write(json.dumps({"service": "analyzer", "addresses": dict(addresses)}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    disable_core_dumps()
    main(sys.argv[1:])
