"""Encoding, randomizing and sealing, against its two seals alone."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

from cores import INFO, SUITE
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
from row import Outcome, Row
from sample_task import SampleTask

from hubbub.client.encode import encode_all, randomize_all, seal
from hubbub.protos.sealing.envelope import SUBMISSION_ID_BYTES, Destination, Sealer, inner_bytes
from hubbub.protos.sealing.suites import DEFAULT
from hubbub.protos.task.task import Task
from hubbub.queries.query import Query
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.questions.number import Number
from hubbub.queries.questions.question import Value
from hubbub.queries.randomizers.krr import KRandomizedResponse

DEVICES = 50
"""Devices prepared in one run: few, so that a machine that slows down slows limit and result alike."""

RUNS = 301
"""Runs of limit and result, by turns."""

BEFORE = {"histogram": 1.072, "sum": 1.15}
"""What it cost then, in bare seals of the same lengths, as these rows measured it."""

QUARTER = 2**30
"""γ = 1/4."""

ASKED: dict[str, tuple[Query, Value]] = {
    "histogram": (
        Query(Histogram("carrier", tuple(f"c{place}" for place in range(16))), KRandomizedResponse(16, QUARTER)),
        "c11",
    ),
    "sum": (Query(Number("delay", -30.0, 180.0, "minutes", levels=19), KRandomizedResponse(20, QUARTER)), 12.5),
}


def preparing() -> Iterator[Outcome]:
    """One device after the other, on one core."""
    for name, (query, answer) in ASKED.items():
        task = SampleTask.generate(query).task
        pairs = [(_prepared(task, answer), _bare(query)) for _ in range(RUNS)]
        values, limits = [1e6 * value for value, _ in pairs], [1e6 * BEFORE[name] * limit for _, limit in pairs]
        yield Row.of(f"prepare_{name}", "µs", values, limits)


def _bare(query: Query) -> float:
    key, report = DEFAULT.generate_key()[1], bytes(query.report_bytes)
    public, inner = X25519PublicKey.from_public_bytes(key), bytes(inner_bytes(query.report_bytes))
    started = time.process_time()
    for _ in range(DEVICES):
        SUITE.encrypt(report, public, info=INFO)
        SUITE.encrypt(inner, public, info=INFO)
    return (time.process_time() - started) / DEVICES


def _prepared(task: Task, answer: Value) -> float:
    sealer = Sealer(Destination(task.id, 0, bytes(32)), DEFAULT.generate_key()[1], DEFAULT.generate_key()[1])
    answers = {task.queries[0].name: answer}
    started = time.process_time()
    for _ in range(DEVICES):
        symbols = [encoded.symbol for encoded in encode_all(task, answers, os.urandom)]
        seal(sealer, randomize_all(task, symbols, os.urandom), os.urandom(SUBMISSION_ID_BYTES))
    return (time.process_time() - started) / DEVICES


ROWS = (preparing,)
