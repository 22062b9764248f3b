"""Sealing and opening by the HPKE library alone, on all cores at once."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite
from sample_task import INNER_BYTES

from hubbub.protos.messages import Submission
from hubbub.protos.sealing.envelope import SUBMISSION_ID_BYTES, Destination, Sealer
from hubbub.protos.sealing.suites import DEFAULT

CORES = os.cpu_count() or 1
SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)
INFO = bytes(90)
"""As long as an envelope's."""


@contextmanager
def all_cores() -> Iterator[ProcessPoolExecutor]:
    """Give a started process for each core."""
    with ProcessPoolExecutor(CORES, mp_context=multiprocessing.get_context("spawn")) as pool:
        list(pool.map(_wake, range(CORES)))
        yield pool


def _wake(_: int) -> None:
    """Keep one process busy until the others have started too."""
    time.sleep(0.5)


def rate(pool: ProcessPoolExecutor, work: Callable[[int], float], count: int) -> float:
    """Return how many items a second all cores do, each its share of `count`; `work` does some and says how long."""
    share = count // CORES
    return share * CORES / max(pool.map(work, [share] * CORES))


def seal_bare(length: int, count: int) -> float:
    """Seal `count` times `length` bytes; return the seconds."""
    key = X25519PrivateKey.generate().public_key()
    plain = os.urandom(length)
    started = time.perf_counter()
    for _ in range(count):
        SUITE.encrypt(plain, key, info=INFO)
    return time.perf_counter() - started


def open_bare(length: int, count: int) -> float:
    """Open `count` times an envelope that holds `length` bytes; return the seconds."""
    private = X25519PrivateKey.generate()
    envelopes = [SUITE.encrypt(bytes(length), private.public_key(), info=INFO) for _ in range(min(count, 200))]
    started = time.perf_counter()
    for place in range(count):
        SUITE.decrypt(envelopes[place % len(envelopes)], private, info=INFO)
    return time.perf_counter() - started


def sealed_inners(public_key: bytes, destination: Destination, reports: Sequence[bytes], count: int) -> bytes:
    """Seal `count` reports of query 0 to the analyzer, these in turn: envelopes one after the other."""
    sealer = Sealer(destination, DEFAULT.generate_key()[1], public_key)
    return b"".join(sealer.inner(reports[place % len(reports)], 0) for place in range(count))


def sealed_outers(public_key: bytes, destination: Destination, count: int) -> list[Submission]:
    """Make `count` submissions of one query to the shuffler, each with random bytes for its inner envelope."""
    sealer = Sealer(destination, public_key, DEFAULT.generate_key()[1])
    ids = [os.urandom(SUBMISSION_ID_BYTES) for _ in range(count)]
    return [Submission(each, sealer.outer([os.urandom(INNER_BYTES)], each)) for each in ids]


def shares(count: int) -> Sequence[int]:
    """Return each core's share of `count`."""
    return [count // CORES] * (CORES - 1) + [count - count // CORES * (CORES - 1)]
