"""Exactly uniform, the same whatever tasks run again, and nothing readable left behind."""

from __future__ import annotations

import functools
import hashlib
import itertools
import os
import select
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chi2
from unit.shuffler.mix.test_mix import Memory, cut, devices, envelope  # noqa: F401 - cut is a fixture
from unit.shuffler.world import FakeAnalyzer

from hubbub.accountant.mechanisms.noise_law import NoiseLaw
from hubbub.protos.messages import RoundState
from hubbub.protos.records.batch import BatchRecord, released_digest
from hubbub.queries.questions.histogram import Histogram
from hubbub.service.settings import SparkSettings
from hubbub.service.spark.files import Files
from hubbub.service.spark.session import SparkApplication, workplace
from hubbub.shuffler.keys import make_keys
from hubbub.shuffler.mix import mix as mixing
from hubbub.shuffler.mix import spark
from hubbub.shuffler.mix.dummies import seal_dummies
from hubbub.shuffler.mix.external_sort import Column, Keys
from hubbub.shuffler.mix.mix import Random, Rows, mix
from hubbub.shuffler.mix.spark import keys_at, mixed_on, order_by, order_of
from hubbub.shuffler.records import Round
from support.ended_with_test import started_program
from support.krr_queries import INNER_BYTES, krr_query
from support.patience import CALL_SECONDS
from support.samples import Parties, sample_task
from support.spark import LEAKY, NEEDS_JAVA, SETTINGS, carried, die_at_first, holding, running

WIDTH = 56
COUNT = 3000
LAW = NoiseLaw.of("geometric", Fraction(4, 5), 14)


def test_a_key_follows_from_secret_block_and_place_alone() -> None:
    secret = bytes(range(32))
    keys = keys_at(secret, 7, 1000)
    assert keys.shape == (1000, 2)
    assert (keys_at(secret, 7, 10) == keys[:10]).all()
    rows = np.concatenate([keys, keys_at(secret, 8, 1000), keys_at(bytes(32), 7, 1000)])
    assert len(np.unique(rows, axis=0)) == 3000


def test_equal_halves_are_ordered_by_the_other_half_and_equal_keys_are_a_tie() -> None:
    keys = np.array([[5, 2], [1, 9], [5, 1]], dtype=np.uint64)
    order = order_of(keys)
    assert order is not None
    assert order.tolist() == [1, 2, 0]
    assert order_of(np.array([[5, 2], [1, 9], [5, 2]], dtype=np.uint64)) is None
    assert order_of(np.empty((0, 2), dtype=np.uint64)) is not None


def test_every_order_is_equally_likely() -> None:
    """12,000 secrets, from a seed: it fails by chance with probability 10⁻⁶.

    Orders by a few bits of the keys are not uniform, and the test sees that.
    """
    found: Counter[tuple[int, ...]] = Counter()
    wrong: Counter[tuple[int, ...]] = Counter()
    for number in range(12_000):
        secret = hashlib.sha256(b"uniform" + number.to_bytes(4, "big")).digest()
        keys = np.concatenate([keys_at(secret, 0, 2), keys_at(secret, 1, 2)])  # rows of two blocks
        order = order_of(keys)
        assert order is not None
        found[tuple(order.tolist())] += 1
        wrong[tuple(np.argsort(keys[:, 0] & np.uint64(7), kind="stable").tolist())] += 1
    orders = list(itertools.permutations(range(4)))

    def statistic(counts: Counter[tuple[int, ...]]) -> float:
        return sum((counts[order] - 500) ** 2 / 500 for order in orders)

    limit = float(chi2.isf(1e-6, len(orders) - 1))
    assert statistic(found) < limit < statistic(wrong)


def test_without_a_master_and_below_the_minimum_nothing_is_given_to_spark(tmp_path: Path) -> None:
    assert order_by(SparkSettings()) is mixing.in_uniform_order
    settings = SparkSettings(master="spark://nowhere:1", minimum_envelopes=101)
    assert sum(map(len, order_by(settings)([np.zeros((100, 8), np.uint8)], 100, 8, tmp_path))) == 100


def column(count: int) -> Column:
    rows = np.zeros((count, WIDTH), dtype=np.uint8)
    rows[:, :8] = np.arange(count, dtype=np.uint64).view(np.uint8).reshape(-1, 8)
    rows[:, 8:] = np.frombuffer(hashlib.shake_256(b"rows").digest(WIDTH - 8), dtype=np.uint8)
    return rows


@dataclass
class Seeded:
    """Random bytes from a seed, each piece kept."""

    seed: bytes
    given: list[bytes]

    def __call__(self, count: int) -> bytes:
        self.given.append(hashlib.shake_256(self.seed + len(self.given).to_bytes(4, "big")).digest(count))
        return self.given[-1]


class Dying(Files):
    """Files of tasks that die the first time that they are run: before they read, and after they wrote."""

    def read(self, number: int) -> bytes:
        die_at_first(number)
        return super().read(number)

    def write(self, number: int, content: bytes) -> None:
        super().write(number, content)
        die_at_first(number)


# First of those on Spark: it begins sessions, and a process has one at a time. A usual run has such a round in
# tests/simulation/test_on_spark.py.
@pytest.mark.exhaustive
@NEEDS_JAVA
@LEAKY
def test_a_round_is_mixed_on_spark_as_in_the_process(cut: tuple[Parties, Round], tmp_path: Path) -> None:  # noqa: F811
    parties, round_ = cut
    memory = Memory([devices(5000)], tmp_path)
    mix(memory, round_, sample_task(parties), parties.shuffler, os.urandom, order=order_by(SETTINGS))
    for query in (0, 1):
        joined = memory.released[query, 0] + memory.released[query, 1]
        rows = [joined[start : start + INNER_BYTES] for start in range(0, len(joined), INNER_BYTES)]
        in_order = [envelope(device, query) for device in range(5000)]
        assert rows != in_order
        assert sorted(rows) == in_order
        assert memory.batches[query][0] == released_digest(rows)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkApplication]:
    carried(__name__)
    with running(tmp_path_factory.mktemp("spark")) as found:
        yield found


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 500 envelopes, six parts."""
    monkeypatch.setattr(spark, "BLOCK_BYTES", 500 * WIDTH)
    monkeypatch.setattr(spark, "PART_BYTES", COUNT * (WIDTH + 16) // 6)


def tied(secret: bytes, under: bytes, block: int, count: int) -> Keys:
    """Keys of which two are equal under one secret, in different blocks."""
    keys = keys_at(under, block, count).copy()
    if under == secret and block in (1, 4):
        keys[3] = 12345
    return keys


def expected(secret: bytes) -> Column:
    """The order of the whole column's keys, computed at once."""
    keys = np.concatenate([keys_at(secret, block, 500) for block in range(COUNT // 500)])
    return column(COUNT)[np.lexsort((keys[:, 1], keys[:, 0]))]


# simulation/test_on_spark.py mixes on Spark, the tests below run tasks again and draw equal keys.
@pytest.mark.exhaustive
@NEEDS_JAVA
@LEAKY
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("files", [pytest.param(Files, marks=pytest.mark.exhaustive), Dying])
def test_the_order_is_that_of_the_keys_whatever_tasks_run_again(
    begun: SparkApplication, tmp_path: Path, files: type[Files]
) -> None:
    random = Seeded(b"one", [])
    mixed = list(mixed_on(begun, tmp_path, [column(1234), column(COUNT)[1234:]], WIDTH, random, files).column())
    assert len(mixed) == 6
    assert (np.concatenate(mixed) == expected(random.given[1])).all()
    assert released_digest([part.tobytes() for part in mixed]) == released_digest([expected(random.given[1]).tobytes()])
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@NEEDS_JAVA
@LEAKY
@pytest.mark.usefixtures("small")
async def test_noise_is_drawn_once_whatever_tasks_run_again(begun: SparkApplication, tmp_path: Path) -> None:
    parties = Parties.generate()
    asked = replace(krr_query(Histogram("theme", ("light", "dark", "none")), 2**30), noise=LAW)
    task = sample_task(parties, queries=(asked,))
    keys = make_keys(task, 0, parties.shuffler, await FakeAnalyzer(task, parties).get_key(task.id, 0))
    cut = Round(1, task.id, 0, RoundState.CUT, keys, submissions=COUNT, closed_by="operator")  # noqa: F811
    noise, drawn = await seal_dummies(task, cut, random := Seeded(b"noise", [])), len(random.given)
    assert [len(given) for given in random.given] == [16] * 3, "one draw for each symbol"

    def order(rows: Rows, _count: int, width: int, folder: Path, random: Random) -> Iterator[Column]:
        return mixed_on(begun, folder, rows, width, random, Dying).column()

    width = task.inner_bytes[0]
    arrived = [hashlib.shake_256(number.to_bytes(4, "big")).digest(width) for number in range(COUNT)]
    memory = Memory([b"".join(arrived)], tmp_path)
    mix(memory, cut, task, parties.shuffler, random, noise, order)
    joined = b"".join(memory.released[0, block] for block in range(len(memory.released)))
    rows = [joined[start : start + width] for start in range(0, len(joined), width)]
    assert sorted(rows) == sorted([*arrived, *(row.tobytes() for row in noise[0])])
    assert 16 not in [len(given) for given in random.given[drawn:]]
    record = BatchRecord.read(memory.batches[0][1], parties.shuffler.public)
    assert (record.reports, record.dummies, record.digest) == (COUNT, len(noise[0]), released_digest(rows))


@NEEDS_JAVA
@LEAKY
@pytest.mark.usefixtures("small")
def test_equal_keys_are_drawn_again_whole(begun: SparkApplication, tmp_path: Path) -> None:
    """Two rows have the first secret's key of one place."""
    first = Seeded(b"tied", [])
    first(32)
    random, secret = Seeded(b"tied", []), first(32)
    keys = functools.partial(tied, secret)
    mixed = np.concatenate(list(mixed_on(begun, tmp_path, [column(COUNT)], WIDTH, random, keys=keys).column()))
    assert len(random.given) == 5, "the key of what came, and twice a secret and the key of what goes"
    assert (mixed == expected(random.given[3])).all()


@NEEDS_JAVA
@LEAKY
@pytest.mark.usefixtures("small")
def test_no_file_holds_the_secret_or_an_envelope(begun: SparkApplication) -> None:
    random = Seeded(b"two", [])
    searched = 0
    for _part in mixed_on(begun, begun.folder, [column(COUNT)], WIDTH, random).column():
        assert holding(begun.folder, [*random.given, column(1)[0, 8:].tobytes()]) == []
        searched += 1
    assert searched == 6
    assert holding(begun.folder, [*random.given, column(1)[0, 8:].tobytes()]) == []
    (begun.folder / "planted").write_bytes(b"..." + random.given[1])
    assert holding(begun.folder, random.given) == [begun.folder / "planted"]


KILLED = """
import os, signal, sys
from pathlib import Path
import numpy as np, structlog
from hubbub.service.settings import SparkSettings
from hubbub.service.spark.session import session, workplace
from hubbub.shuffler.mix.spark import keys_at, mixed_on

structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
folder, told, row = Path(sys.argv[1]), sys.argv[2], bytes.fromhex(sys.argv[3])

def random(count):
    given = os.urandom(count)
    print(given.hex(), flush=True)
    return given

def keys(secret, block, count):
    if block == 1:
        Path(told).write_text("in a task")
        signal.pause()
    return keys_at(secret, block, count)

settings = SparkSettings(master="local[2]", minimum_envelopes=1)
rows = np.frombuffer(row * 100_000, dtype=np.uint8).reshape(-1, len(row))
with workplace(settings, folder) as place, session(settings, place) as begun:
    print(begun._process.pid, flush=True)
    mixed_on(begun, place, [rows], len(row), random, keys=keys)
"""
"""A service that mixes, whose second block's task says that it runs and never ends."""


@NEEDS_JAVA
def test_what_a_service_leaves_that_is_killed_is_unreadable_and_is_removed_by_the_next_job(tmp_path: Path) -> None:
    folder, told, row = tmp_path / "store", tmp_path / "told", os.urandom(WIDTH)
    folder.mkdir()
    os.mkfifo(told)
    with started_program(
        [sys.executable, "-P", "-c", KILLED, folder, told, row.hex()],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as service:
        assert service.stdout is not None
        jvm = os.pidfd_open(int(service.stdout.readline()))
        given = [bytes.fromhex(service.stdout.readline()) for _ in range(3)]
        assert told.read_text() == "in a task"
        service.kill()
    assert select.select([jvm], [], [], CALL_SECONDS)[0], "the JVM leaves with the service"
    os.close(jvm)
    left = [path for path in folder.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in left) > 100_000 * WIDTH, "what came lies there, enciphered"
    assert holding(folder, [*given, row]) == []
    with workplace(SETTINGS, folder) as place:
        assert list(folder.iterdir()) == [place]
