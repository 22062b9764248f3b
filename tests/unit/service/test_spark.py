"""Sessions on Spark, what they refuse, and opening on them: the same tally as on one machine, keys in no file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from hubbub.analyzer.opening import open_batch
from hubbub.protos.sealing.envelope import Destination, Sealer
from hubbub.protos.sealing.suites import DEFAULT
from hubbub.queries.randomizers.krr import KRandomizedResponse
from hubbub.service.processes.opening_pool import Opened, OpeningJob, OpeningPool, open_chunk
from hubbub.service.settings import SettingsError, SparkSettings
from hubbub.service.spark import opening, session
from hubbub.service.spark.errors import SparkError
from hubbub.service.spark.files import Files
from hubbub.service.spark.opening import SparkOpeningPool, opened_on
from hubbub.service.spark.session import ENCRYPTION, check_encrypted, check_installed, given
from support.krr_queries import INNER_BYTES, report
from support.samples import HALF
from support.spark import LEAKY, NEEDS_JAVA, SETTINGS, carried, die_at_first, holding, running

DESTINATION = Destination(bytes(32), 0, bytes(32))
PRIVATE, PUBLIC = DEFAULT.generate_key()
JOB = OpeningJob(DESTINATION, PRIVATE, 0, INNER_BYTES)
RANDOMIZER = KRandomizedResponse(5, HALF)


def test_a_file_is_read_back_and_lies_enciphered(tmp_path: Path) -> None:
    files = Files(tmp_path, os.urandom(32))
    files.write(3, b"content that is long enough to be seen")
    assert files.read(3) == b"content that is long enough to be seen"
    assert [path.name for path in tmp_path.iterdir()] == ["3"]
    assert holding(tmp_path, [b"content", files.key]) == []


def test_a_file_that_is_missing_changed_or_another_one_is_refused(tmp_path: Path) -> None:
    files = Files(tmp_path, os.urandom(32))
    files.write(0, b"zero")
    files.write(1, b"one")
    (tmp_path / "1").write_bytes((tmp_path / "0").read_bytes())
    for number in (1, 2):
        with pytest.raises(SparkError, match=rf"file {number} .*missing or damaged.*spark\.folder"):
            files.read(number)


def context(changed: dict[str, str], *, stored: bool = True) -> Any:
    """A context whose JVM runs with other settings than were asked for."""
    running = {**ENCRYPTION, "spark.eventLog.enabled": "false", **changed}
    conf = SimpleNamespace(get=lambda key, default: running.get(key, default))
    jsc = SimpleNamespace(sc=lambda: SimpleNamespace(conf=lambda: conf))
    return SimpleNamespace(_jsc=jsc, _encryption_enabled=stored)


@pytest.mark.parametrize("key", [*ENCRYPTION, "spark.eventLog.enabled"])
def test_a_session_that_is_not_encrypted_as_a_whole_is_refused(key: str) -> None:
    check_encrypted(context({}))
    with pytest.raises(SparkError, match=rf"so it is not used: {key} is other, not "):
        check_encrypted(context({key: "other"}))


def test_a_session_whose_stores_are_in_the_clear_is_refused() -> None:
    with pytest.raises(SparkError, match="what it stores is not encrypted"):
        check_encrypted(context({}, stored=False))


def test_a_missing_java_is_named_with_what_brings_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    check_installed(SparkSettings())
    with pytest.raises(SettingsError, match=r"no Java is found: install Java 17"):
        check_installed(SparkSettings(master="local[1]"))


def test_a_missing_pyspark_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(SettingsError, match=r"pip install 'hubbub\[spark\]'"):
        check_installed(SparkSettings(master="local[1]"))


def test_spark_is_given_few_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_CREDENTIAL", "of the deployment")
    found = given({**os.environ, "JAVA_HOME": "/opt/java", "SPARK_CONNECT_MODE": "0", "LD_PRELOAD": "/opt/other.so"})
    assert (found["JAVA_HOME"], found["SPARK_CONNECT_MODE"], found["PYTHONSAFEPATH"]) == ("/opt/java", "0", "1")
    assert "PATH" in found
    assert not {"A_CREDENTIAL", "LD_PRELOAD"} & found.keys()


def variables(_row: int) -> list[str]:
    return sorted(os.environ)


# `test_spark_is_given_few_variables` has what Spark is given.
@pytest.mark.exhaustive
@NEEDS_JAVA
@LEAKY
def test_no_variable_of_the_service_reaches_the_jvm_or_a_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    carried(__name__)
    monkeypatch.setenv("A_CREDENTIAL", "of the deployment")
    with running(tmp_path) as begun:
        jvm = {str(name) for name in begun.context._jvm.System.getenv()}
        tasks = set(begun.context.parallelize([0, 1], 2).flatMap(variables).collect())
        assert os.environ["A_CREDENTIAL"] == "of the deployment"
    assert {"PATH", "SPARK_LOCAL_DIRS"} <= jvm & tasks
    assert "A_CREDENTIAL" not in jvm | tasks


def test_small_batches_are_opened_as_before(tmp_path: Path) -> None:
    opening_pool = SparkOpeningPool(SparkSettings(master="spark://nowhere:1", minimum_envelopes=3), tmp_path)
    try:
        assert list(opening_pool.open(JOB, [bytes(2 * INNER_BYTES)], 2)) == [(b"", 2)]
    finally:
        opening_pool.close()


def batch(count: int) -> list[bytes]:
    """Chunks of any length of a batch: good reports, some there twice, some that are none, some of no symbol."""
    sealer = Sealer(DESTINATION, DEFAULT.generate_key()[1], PUBLIC)
    good = [sealer.inner(report(place % 7), 0) for place in range(count)]
    other = Sealer(Destination(bytes(32), 1, bytes(32)), DEFAULT.generate_key()[1], PUBLIC)
    bad = [other.inner(report(1), 0) for _ in range(5)] + [os.urandom(INNER_BYTES) for _ in range(5)]
    joined = b"".join([*good[: count // 2], *bad, *good[10:20], *good[count // 2 :], good[0]])
    return [joined[start : start + 77 * INNER_BYTES] for start in range(0, len(joined), 77 * INNER_BYTES)]


def dying(job: OpeningJob, chunk: bytes) -> Opened:
    """Open a chunk; every other task's worker is killed before, at its first try."""
    from pyspark import TaskContext

    found = TaskContext.get()
    die_at_first(0 if found is None else found.partitionId())
    return open_chunk(job, chunk)


# A round on Spark is counted in tests/simulation/test_on_spark.py, and tasks run again in those of mixing.
@pytest.mark.exhaustive
@NEEDS_JAVA
@LEAKY
def test_the_tally_is_that_of_one_machine_whatever_tasks_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "CHUNK", 100)
    carried(__name__)
    parts = batch(2000)
    count = sum(map(len, parts)) // INNER_BYTES
    here, there = OpeningPool(1), SparkOpeningPool(SETTINGS, tmp_path, open_one=dying)
    try:
        local = open_batch(JOB, lambda: parts, count, RANDOMIZER, here.count)
        far = open_batch(JOB, lambda: parts, count, RANDOMIZER, there.count)
    finally:
        here.close()
        there.close()
    assert far.tally.written() == local.tally.written()
    assert (far.tally.valid, far.tally.invalid) == (local.tally.valid, local.tally.invalid)
    assert far.left_out == local.left_out
    assert set(local.left_out) == {"duplicate", "unopenable", "out_of_domain"}
    assert list(tmp_path.iterdir()) == []


# tests/unit/shuffler/mix/test_spark.py searches the files of a session, which encrypts all: `check_encrypted` above.
@pytest.mark.exhaustive
@NEEDS_JAVA
@LEAKY
def test_the_key_is_in_no_file_while_a_batch_is_opened_and_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "CHUNK", 100)
    parts, searched, seen = batch(2000), 0, set[str]()
    with running(tmp_path) as begun:
        for _chunk in opened_on(begun, JOB, parts, bytes):
            assert holding(tmp_path, [PRIVATE, report(6) * 3, parts[0][:32]]) == []
            seen |= {path.name for path in tmp_path.rglob("*")}
            searched += 1
        assert searched == len(list(opening._chunks(parts, INNER_BYTES)))
        assert holding(tmp_path, [PRIVATE]) == []
    assert any(name.startswith("blockmgr-") for name in seen), "Spark's own folders were searched"
    assert list(tmp_path.iterdir()) == []


# `test_a_service_that_stops_ends_the_job` has an error of a job, which leaves nothing.
@pytest.mark.exhaustive
@NEEDS_JAVA
@LEAKY
def test_a_job_that_fails_says_so_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "hubbub-spark-left").mkdir()
    opening_pool = SparkOpeningPool(
        SETTINGS.model_copy(update={"master": "local[1]"}), tmp_path, open_one=cast(Any, int)
    )
    with pytest.raises(SparkError, match="a job on Spark failed"):
        list(opening_pool.open(JOB, [bytes(INNER_BYTES)], 1))
    assert list(tmp_path.iterdir()) == []
    opening_pool.close()
    with pytest.raises(SparkError, match="stopping"):
        list(opening_pool.open(JOB, [bytes(INNER_BYTES)], 1))


def killing(opening_pool: SparkOpeningPool, parts: list[bytes]) -> Iterable[bytes]:
    """The first chunk; then the service stops, and the others come."""
    yield parts[0]
    opening_pool.close()
    yield from parts[1:]


@NEEDS_JAVA
@LEAKY
def test_a_service_that_stops_ends_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "CHUNK", 10)
    opening_pool = SparkOpeningPool(SETTINGS, tmp_path)
    with pytest.raises(SparkError):
        list(opening_pool.open(JOB, killing(opening_pool, batch(1000)), 1000))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("log", "says"),
    [
        ("", "it logged nothing; is spark.master right, and Java 17 or newer?"),
        ("Error: Master must start with yarn\n", "Error: Master must start with yarn; is spark.master right"),
        (
            "Error occurred during initialization of VM\nFailed to mark memory page as executable\n"  # noqa: ISC004
            "/opt/hubbub/pyspark/bin/spark-class: line 97: CMD: bad array subscript\n",
            "Failed to mark memory page as executable; this process may not have memory that is writable and",
        ),
    ],
    ids=["nothing", "one line", "a unit that forbids a JVM"],
)
def test_why_spark_does_not_start_is_the_jvms_error_and_not_its_scripts(tmp_path: Path, log: str, says: str) -> None:
    (tmp_path / "log").write_text(log)
    assert session._told(tmp_path).startswith(says)


# `test_a_session_that_is_not_encrypted_as_a_whole_is_refused` has each setting.
@pytest.mark.exhaustive
@NEEDS_JAVA
@LEAKY
def test_submit_arguments_cannot_turn_encryption_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is handed in here goes before it, or the session is refused: never is it used unencrypted."""
    off = " ".join(f"--conf {key}=false" for key in ("spark.io.encryption.enabled", "spark.authenticate"))
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"{off} pyspark-shell")
    with running(tmp_path) as begun:
        check_encrypted(begun.context)
        assert begun.context._jsc.sc().conf().get("spark.io.encryption.enabled") == "true"


def chunks(found: Iterable[bytes]) -> Iterator[int]:
    return (len(chunk) // INNER_BYTES for chunk in found)


def test_chunks_are_of_one_length_however_the_batch_was_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "CHUNK", 100)
    parts = [bytes(77 * INNER_BYTES), b"", bytes(250 * INNER_BYTES)]
    assert list(chunks(opening._chunks(parts, INNER_BYTES))) == [100, 100, 100, 27]
