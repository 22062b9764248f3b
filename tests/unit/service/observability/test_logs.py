"""Logs never show what variables hold."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest
import structlog
from google.protobuf.message import DecodeError

from hubbub.service.observability import logs
from hubbub.service.settings import LogSettings
from support.logging_setup import own_logs


def log_a_failure() -> None:
    private_key = "the secret of a local variable"
    try:
        raise ValueError(len(private_key))
    except ValueError:
        structlog.get_logger("test").error("failed", round=3, exc_info=True)
        logging.getLogger("test").exception("failed too")


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    with own_logs():
        yield


def test_tracebacks_hold_no_values_of_variables(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(LogSettings())
    log_a_failure()
    assert logs.flush()
    text = capsys.readouterr().err
    assert text.count("ValueError") >= 2
    assert "the secret" not in text.replace('private_key = "the secret of a local variable"', "")


def test_json_is_one_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(LogSettings(format="json"))
    log_a_failure()
    assert logs.flush()
    first, second = (json.loads(line) for line in capsys.readouterr().err.splitlines())
    assert (first["event"], first["round"], first["level"]) == ("failed", 3, "error")
    assert "the secret" not in str(first) + str(second)


def test_lines_below_the_level_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(LogSettings(level="error"))
    structlog.get_logger("test").info("unimportant")
    assert logs.flush()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("library", ["alembic.runtime.migration", "py4j.clientserver"])
def test_libraries_that_report_each_start_and_connection_are_left_out(
    library: str, capsys: pytest.CaptureFixture[str]
) -> None:
    logs.configure(LogSettings())
    logging.getLogger(library).info("Closing down connection")
    logging.getLogger(library).warning("a problem")
    assert logs.flush()
    text = capsys.readouterr().err
    assert "Closing down" not in text
    assert "a problem" in text


def test_bytes_that_are_no_message_leave_no_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(LogSettings())
    grpc_log = logging.getLogger("grpc._cython.cygrpc")
    for error in (DecodeError("no message"), RuntimeError("a real failure")):
        try:
            raise error
        except (DecodeError, RuntimeError):
            grpc_log.exception("Unexpected")
    assert logs.flush()
    text = capsys.readouterr().err
    assert text.count("Traceback") == 1
    assert "a real failure" in text


@pytest.mark.parametrize("form", ["console", "json"])
def test_what_others_wrote_forges_no_line_and_steers_no_terminal(form: str, capfd: pytest.CaptureFixture[str]) -> None:
    logs.configure(LogSettings(level="info", format=form))
    said = "a\x1b[2J\u202e\nlevel=error forged \x9b"
    structlog.get_logger("test").info(said, name=said, many=[said])
    logging.getLogger("library").warning("it said %s", said)
    try:
        raise ValueError(said)
    except ValueError:
        logging.getLogger("library").exception(said)
    assert logs.flush()
    lines = capfd.readouterr().err.splitlines()
    assert all(line.isprintable() for line in lines)
    assert not [line for line in lines if line.startswith("level=error")]
    assert "\\x1b[2J" in lines[0].replace("\\\\", "\\").replace("\\u001b", "\\x1b")
