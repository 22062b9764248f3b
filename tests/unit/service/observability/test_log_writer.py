"""Whoever logs never waits and never fails; what is lost is counted, and said when the log works."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import logging
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import pytest
import structlog

from hubbub.service.observability import logs
from hubbub.service.observability.log_writer import LogWriter
from hubbub.service.settings import LogSettings
from support.logging_setup import own_logs
from support.patience import CALL_SECONDS


class Telling(io.StringIO):
    """Tells when a write came through."""

    def __init__(self, log: Log, told: threading.Event) -> None:
        super().__init__()
        self._log, self._told = log, told

    def write(self, text: str) -> int:
        written = self._log.write(text)
        self._told.set()
        return written


class Log(io.StringIO):
    """A stderr of an application's own; while `broken` every write fails."""

    broken = False

    def write(self, text: str) -> int:
        if self.broken:
            raise OSError(28, "No space left on device")
        return super().write(text)


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
def pipe() -> Iterator[tuple[int, TextIO]]:
    """A pipe: its end to read from, and the other as a stream."""
    reader, writer = os.pipe()
    with os.fdopen(writer, "w") as stream:
        yield reader, stream


@pytest.fixture
def restored() -> Iterator[None]:
    with own_logs():
        yield


def lines(stream: Any, limit: int = 100, retry: float = CALL_SECONDS) -> LogWriter:
    seconds = itertools.count()
    return LogWriter(
        lambda count, since, why: f"{count} lost since {since}: {why}",
        stream=lambda: stream,
        limit=limit,
        retry=retry,
        clock=lambda: next(seconds),
    )


def test_lines_are_written_in_order(log: Log) -> None:
    some = lines(log)
    for number in range(50):
        some.put(str(number))
    assert some.flush(CALL_SECONDS)
    assert log.getvalue().split() == [str(number) for number in range(50)]
    assert (some.lost, some.waiting, some.unreported[0]) == (0, 0, 0)


def test_what_is_lost_is_counted_and_said_before_the_next_line(log: Log) -> None:
    some = lines(log)
    log.broken = True
    for text in ("one", "two", "three"):
        some.put(text)
        assert some.flush(CALL_SECONDS)
    assert some.unreported == (3, 0, "No space left on device")
    log.broken = False
    some.put("four")
    assert some.flush(CALL_SECONDS)
    assert log.getvalue() == "3 lost since 0: No space left on device\nfour\n"
    assert (some.lost, some.unreported[0]) == (3, 0)
    some.put("five")
    assert some.flush(CALL_SECONDS)
    assert log.getvalue().endswith("four\nfive\n")


def test_a_log_that_works_again_says_what_was_lost_though_nothing_else_is_logged() -> None:
    log, told = Log(), threading.Event()
    log.broken = True
    some = LogWriter(lambda *_: "told", stream=lambda: Telling(log, told), retry=0.001)
    some.put("one")
    assert some.flush(CALL_SECONDS)
    log.broken = False
    assert told.wait(CALL_SECONDS)
    assert log.getvalue() == "told\n"


def test_a_closed_stderr_loses_lines_and_nothing_else() -> None:
    some = lines(None)
    some.put("one")
    assert some.flush(CALL_SECONDS)
    assert some.unreported == (1, 0, "stderr is closed")


def test_a_reader_that_does_not_read_holds_nobody_up(pipe: tuple[int, TextIO]) -> None:
    reader, stream = pipe
    os.set_blocking(stream.fileno(), False)
    filled = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            filled += os.write(stream.fileno(), b"x")
    os.set_blocking(stream.fileno(), True)
    some = lines(stream, limit=5)
    for number in range(20):
        some.put(str(number))
    assert not some.flush(0.0)
    lost = some.lost
    assert lost in (14, 15)  # one of the twenty may be with the thread, whose write does not return
    assert some.unreported[2] == "nothing reads it"
    while filled:
        filled -= len(os.read(reader, filled))
    assert some.flush(CALL_SECONDS)
    told = os.read(reader, 10_000).decode().splitlines()
    # Where the thread took its first line late, it tells of what was lost until then first, and of the others later.
    notices = [line for line in told if " lost since " in line]
    assert sum(int(line.split()[0]) for line in notices) == lost
    assert len(told) - len(notices) == 20 - lost


def test_a_torn_line_is_not_continued_by_the_next(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As on a disk that has room for a part of a line."""
    room = [4]
    real = os.write

    def nearly_full(descriptor: int, data: bytes) -> int:
        if not room[0]:
            raise OSError(28, "No space left on device")
        taken = real(descriptor, data[: room[0]])
        room[0] -= taken
        return taken

    with (tmp_path / "log").open("w") as stream:
        monkeypatch.setattr(os, "write", nearly_full)
        some = lines(stream)
        some.put("a long line")
        assert some.flush(CALL_SECONDS)
        room[0] = 1000
        some.put("next")
        assert some.flush(CALL_SECONDS)
    assert (tmp_path / "log").read_text() == "a lo\n1 lost since 0: No space left on device\nnext\n"


def test_a_forked_process_writes_its_own_lines(pipe: tuple[int, TextIO]) -> None:
    reader, stream = pipe
    some = lines(stream)
    some.put("parent")
    assert some.flush(CALL_SECONDS)
    some._process = -1  # as in a child, which has the object and not the thread
    some._thread = None
    some.put("child")
    assert some.flush(CALL_SECONDS)
    assert os.read(reader, 1000) == b"parent\nchild\n"


def test_what_cannot_be_encoded_is_written_all_the_same(pipe: tuple[int, TextIO]) -> None:
    reader, stream = pipe
    some = lines(stream)
    some.put("a path \udcff of bytes")
    assert some.flush(CALL_SECONDS)
    assert os.read(reader, 1000) == b"a path \\udcff of bytes\n"


@pytest.mark.usefixtures("restored")
def test_the_log_says_how_many_lines_were_lost_in_its_own_format(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", log)
    logs.configure(LogSettings(format="json"))
    before = logs.lost()
    log.broken = True
    structlog.get_logger("test").info("unseen")
    assert logs.flush()
    assert (logs.lost() - before, logs.unreported()[0]) == (1, 1)
    log.broken = False
    structlog.get_logger("test").info("seen")
    assert logs.flush()
    told, seen = (json.loads(line) for line in log.getvalue().splitlines())
    assert (told["event"], told["lines"], told["level"]) == ("log lines were lost", 1, "warning")
    assert told["why"] == "No space left on device"
    assert seen["event"] == "seen"
    assert (logs.lost() - before, logs.unreported()[0]) == (1, 0)


@pytest.mark.usefixtures("restored")
def test_a_log_that_is_set_up_anew_keeps_what_waits_and_what_was_lost(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", log)
    logs.configure(LogSettings())
    before = logs.lost()
    log.broken = True
    structlog.get_logger("test").info("unseen")
    assert logs.flush()
    logs.configure(LogSettings(format="json"))
    assert (logs.lost() - before, logs.unreported()[0]) == (1, 1)
    log.broken = False
    structlog.get_logger("test").info("seen")
    assert logs.flush()
    assert [json.loads(line)["event"] for line in log.getvalue().splitlines()] == ["log lines were lost", "seen"]


@pytest.mark.usefixtures("restored")
def test_a_value_that_cannot_be_shown_loses_its_line_alone(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", log)

    class Unspeakable:
        def __repr__(self) -> str:
            raise RuntimeError("no words")

    logs.configure(LogSettings(format="json"))
    lost = logs.lost()
    # Handed to our handler alone: pytest's own would raise.
    (handler,) = logs._handlers()
    handler.handle(logging.makeLogRecord({"msg": Unspeakable(), "levelname": "INFO"}))
    assert logs.flush()
    assert (logs.lost() - lost, logs.unreported()[2]) == (1, "it could not be formatted: RuntimeError")
    structlog.get_logger("test").info("seen")
    assert logs.flush()
    assert [json.loads(line)["event"] for line in log.getvalue().splitlines()] == ["log lines were lost", "seen"]
