"""Runs the attacker of an audit: an analyzer that records the reports that it opens, in order of arrival.

Of some batches it drops the first delivery, as if it had lost it, and asks for the batch again. It records both lists'
digests: a shuffler releases one list of a batch, however often it delivers it.

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
from typing import TYPE_CHECKING, Any

from hubbub.analyzer.server import serve
from hubbub.analyzer.settings import load
from hubbub.protos.errors import HubbubError
from hubbub.protos.identity.documents import SignedDocument
from hubbub.protos.identity.keys import KeySet
from hubbub.protos.messages import Committed, Envelopes
from hubbub.protos.records.batch import BatchId, begun_digest
from hubbub.protos.records.release_chain import Known, ReleaseChunk
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.strict_json import read_json
from hubbub.service.processes.hardening import disable_core_dumps
from hubbub.service.processes.opening_pool import Opened, OpeningJob, OpeningPool
from hubbub.service.rpc import DeliveryHandler

if TYPE_CHECKING:
    from hashlib import _Hash

LOST_SHARE = 8
"""One batch in this many is dropped at its first delivery, and asked for again."""

LOST_SECONDS = 0.05
"""Seconds after which a batch that was dropped may be delivered again."""

_WRITING = threading.Lock()
"""Batches are opened in threads: lines must not be interleaved."""


class RecordingPool(OpeningPool):
    """Workers that record the joined reports of each batch, once all of it is open."""

    def __init__(self, file: Path, processes: int) -> None:
        super().__init__(processes)
        self._file = file

    def open(self, job: OpeningJob, parts: Iterable[bytes], expected: int) -> Iterator[Opened]:
        """Open a batch like `OpeningPool`, and append its reports to the file."""
        seen: list[bytes] = []
        for opened in super().open(job, parts, expected):
            seen.append(opened[0])
            yield opened
        reports = b"".join(seen).hex()
        append(self._file, {"task": job.destination.task_id.hex(), "query": job.query, "reports": reports})


class LosingReceiver:
    """A receiver that drops the first delivery of every eighth batch, beginning with the first, and asks for another.

    It passes on everything else. Once a batch was dropped and came again, a line in the file has both lists' digests.
    """

    def __init__(self, file: Path, receiver: DeliveryHandler) -> None:
        self._file = file
        self._receiver = receiver
        self._known: set[BatchId] = set()
        self._lost: dict[BatchId, _Hash] = {}
        self._again: dict[BatchId, tuple[bytes, _Hash]] = {}

    async def get_key(self, task_id: bytes, round_number: int) -> SignedDocument:
        """Return the key record of a round."""
        return await self._receiver.get_key(task_id, round_number)

    async def get_releases(self, task_id: bytes) -> Known:
        return await self._receiver.get_releases(task_id)

    async def begin(self, record: SignedDocument, key_set: KeySet, releases: ReleaseChunk) -> int:
        """Take a batch's announcement, and pass it on unless its delivery is to be dropped."""
        content = read_json(record.body)
        batch = BatchId(bytes.fromhex(content["task"]), content["round"], content["query"])
        if batch not in self._known:
            if len(self._known) % LOST_SHARE == 0:
                self._lost[batch] = begun_digest()
            self._known.add(batch)
        return 0 if batch in self._lost else await self._receiver.begin(record, key_set, releases)

    async def put(self, chunk: Envelopes) -> int:
        """Take a chunk, and pass it on unless its batch is to be dropped."""
        if chunk.batch in self._lost:
            self._lost[chunk.batch].update(b"".join(chunk.envelopes))
            return chunk.offset + len(chunk.envelopes)
        if chunk.batch in self._again:
            self._again[chunk.batch][1].update(b"".join(chunk.envelopes))
        return await self._receiver.put(chunk)

    async def commit(self, batch: BatchId, digest: bytes) -> Committed:
        """Commit a batch; refuse the commit of one that was dropped, and forget it.

        Raises:
            Refusal: NOT_READY for a dropped batch.
        """
        if batch in self._lost:
            self._again[batch] = (self._lost.pop(batch).digest(), begun_digest())
            raise Refusal(Reason.NOT_READY, "the batch was lost here; deliver it again", LOST_SECONDS)
        committed = await self._receiver.commit(batch, digest)
        if batch in self._again:
            first, second = self._again.pop(batch)
            lists = [first.hex(), second.digest().hex()]
            append(self._file, {"task": batch.task_id.hex(), "query": batch.query, "lists": lists})
        return committed


def append(file: Path, value: Mapping[str, Any]) -> None:
    """Append a line of JSON to a file."""
    with _WRITING, file.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(value) + "\n")


def read_observations(file: Path) -> dict[tuple[str, int], bytes]:
    """Return the reports of every batch that the recording analyzer opened, joined, by task id (hex) and query."""
    return {key: bytes.fromhex(each["reports"]) for key, each in _lines(file) if "reports" in each}


def read_second_deliveries(file: Path) -> dict[tuple[str, int], bool]:
    """Return, by task id (hex) and query of each batch that was delivered twice, whether it was the same list again."""
    return {key: each["lists"][0] == each["lists"][1] for key, each in _lines(file) if "lists" in each}


def _lines(file: Path) -> Iterator[tuple[tuple[str, int], dict[str, Any]]]:
    for line in file.read_text("utf-8").splitlines() if file.exists() else ():
        content = read_json(line)
        yield (content["task"], content["query"]), content


def main(words: list[str]) -> None:
    """Run the analyzer of the settings file `words[1]`; it records opened reports in the file `words[0]`."""
    file, settings = Path(words[0]), Path(words[1])
    made, losing = partial(RecordingPool, file), partial(LosingReceiver, file)
    try:
        asyncio.run(serve(load(settings), announce=_announce, new_pool=made, behind=losing))
    except HubbubError as error:
        sys.exit(str(error))


def _announce(addresses: Mapping[str, str]) -> None:
    """Print the addresses like `hubbub analyzer --json`, for the process that started this one."""
    sys.stdout.write(json.dumps({"service": "analyzer", "addresses": dict(addresses)}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    disable_core_dumps()
    main(sys.argv[1:])
