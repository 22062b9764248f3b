"""An analyzer that writes down what it opens, in the order in which it came; the attacker of an audit.

It is run as `python -m hubbub.deploy.audit.recording_analyzer FILE SETTINGS.toml`, in the place of `hubbub analyzer`:
the same service, whose workers append a line of JSON to the file for every batch that was opened.
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
    """Workers that write down the reports of each batch, joined, once all of it is open."""

    def __init__(self, file: Path, processes: int) -> None:
        super().__init__(processes)
        self._file = file
        self._writing = threading.Lock()

    def open(self, job: OpeningJob, parts: Iterable[bytes], expected: int) -> Iterator[Opened]:
        """Open a batch as `OpeningPool` does, and append what it held to the file."""
        seen: list[bytes] = []
        for opened in super().open(job, parts, expected):
            seen.append(opened[0])
            yield opened
        reports = b"".join(seen).hex()
        line = json.dumps({"task": job.destination.task_id.hex(), "query": job.query, "reports": reports})
        # Batches are opened in threads: a line must not come between another's.
        with self._writing, self._file.open("a") as file:
            file.write(line + "\n")


def read_observations(file: Path) -> dict[tuple[str, int], bytes]:
    """Return the reports of every batch that the recording analyzer opened, joined, by task id (hex) and query."""
    if not file.exists():
        return {}
    lines = (json.loads(line) for line in file.read_text().splitlines())
    return {(each["task"], each["query"]): bytes.fromhex(each["reports"]) for each in lines}


def main(words: list[str]) -> None:
    """Run the analyzer of the settings file `words[1]`; what it opens goes to the file `words[0]`."""
    file, settings = Path(words[0]), Path(words[1])
    made = partial(RecordingPool, file)
    try:
        asyncio.run(serve(load(settings), announce=_announce, new_pool=made))
    except HubbubError as error:
        sys.exit(str(error))


def _announce(addresses: Mapping[str, str]) -> None:
    """Print the addresses as `hubbub analyzer --json` does: whoever started this process reads them."""
    sys.stdout.write(json.dumps({"service": "analyzer", "addresses": dict(addresses)}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    disable_core_dumps()
    main(sys.argv[1:])
