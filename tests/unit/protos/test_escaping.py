"""Whatever others wrote can be seen when it is shown, and cannot act on what shows it."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.protos import codec
from hubbub.protos.escaping import hex_repr, readable, readable_lines
from hubbub.protos.messages import ListedTask, RoundState, RoundStatus
from hubbub.protos.records.results import (
    AnalysisStage,
    AnalyzerRoundStatus,
    QueryResult,
    QueryState,
    RoundId,
    RoundResults,
)
from hubbub.protos.rpc.results import read_results
from hubbub.protos.rpc.round_progress import read_round_status
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.v1 import control_pb2, results_pb2
from support.samples import Parties, sample_task

LINK = "\x1b]8;;http://example.org\x1b\\name\x1b]8;;\x1b\\"
SHOWN = r"\x1b]8;;http://example.org\x1b\name\x1b]8;;\x1b" + "\\"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("carrier: Zürich, 東京 ❤", "carrier: Zürich, 東京 ❤"),
        ("\x1b[31m", r"\x1b[31m"),
        (LINK, SHOWN),
        ("a\r\nerror: no", r"a\r\nerror: no"),
        ("\x9b2J\x7f\x00", r"\x9b2J\x7f\x00"),
        ("user\u202egpj.exe", r"user\u202egpj.exe"),
        ("pay\u200bpal\ufeff\u2060", r"pay\u200bpal\ufeff\u2060"),
        ("\u2066\u2069\u061c\u00ad", r"\u2066\u2069\u061c\xad"),
        ("\u3164\u2800\u115f", r"\u3164\u2800\u115f"),
        ("\U000e0041\ue000\udc80", r"\U000e0041\ue000\udc80"),
        ("yes\ufe0f\ufe00\u180b\u180f", r"yes\ufe0f\ufe00\u180b\u180f"),
        ("yes\U000e0100\U000e01ef", r"yes\U000e0100\U000e01ef"),
        ("one\u2028two\u00a0", r"one\u2028two\xa0"),
    ],
)
def test_what_cannot_be_seen_is_shown_as_an_escape(text: str, shown: str) -> None:
    assert readable(text) == shown


def test_line_breaks_are_kept_where_a_text_has_lines() -> None:
    assert readable_lines("first\nsecond\r\x1b") == "first\nsecond\\r\\x1b"


@given(st.text())
def test_nothing_readable_is_changed_and_nothing_else_is_left(text: str) -> None:
    shown = readable(text)
    assert readable(shown) == shown
    assert {unicodedata.category(mark) for mark in shown} <= {unicodedata.category(mark) for mark in text} | {
        *("Lu", "Ll", "Nd", "Po")
    }
    assert not {unicodedata.category(mark) for mark in shown} & {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def test_every_name_from_a_service_is_readable() -> None:
    """A service that was taken over sends escape sequences as names of tasks, queries, reasons, and in messages."""
    state = control_pb2.RoundState.Value(f"ROUND_STATE_{RoundState.OPEN.name}")
    status = control_pb2.RoundStatus(task_id=bytes(32), state=state, refusals={LINK: 1}, waiting_for=LINK)
    read = codec.read_status(status)
    assert (dict(read.refusals), read.waiting_for) == ({SHOWN: 1}, SHOWN)
    identity = results_pb2.RoundId(task_id=bytes(32), task_name=LINK, round=0)
    published = results_pb2.QueryState.Value("QUERY_STATE_PUBLISHED")
    row = results_pb2.Row(statistic=LINK, category=LINK, unit=LINK)
    estimates = results_pb2.Estimates(kind=LINK, unit=LINK, rows=[row], notes=[LINK])
    query = results_pb2.QueryResult(name=LINK, state=published, left_out={LINK: 2}, estimates=estimates)
    results = read_results(results_pb2.RoundResults(id=identity, queries=[query]))
    assert results.id.task_name == results.queries[0].name == SHOWN
    status = results_pb2.AnalyzerRoundStatus(
        id=identity,
        progress=results_pb2.PROGRESS_AWAITED,
        queries=[results_pb2.QueryStatus(name=LINK, left_out={LINK: 2})],
        waiting_for=LINK,
    )
    for value in (read, results, read_round_status(status)):
        assert "\\x1b" in repr(value)
        # A character that is still there is shown by `repr` with one backslash, one that is escaped with two.
        assert repr(value).count("\\x1b") == repr(value).count("\\\\x1b")


def test_what_people_read_in_python_has_ids_in_hex() -> None:
    """As commands print them; of a certificate or a table only how long it is."""
    id_ = bytes(range(224, 256))
    which = RoundId(id_, "usage", 3)
    query = QueryResult("theme", QueryState.PUBLISHED, 2, 2, {}, None, bytes(100))
    task = SignedTask(sample_task(Parties.generate()), bytes(64))
    values = (
        which,
        ListedTask(id_, "usage"),
        RoundStatus(id_, 0, RoundState.OPEN, 0, 1, {}, ""),
        AnalyzerRoundStatus(which, AnalysisStage.AWAITED, (), ""),
        RoundResults(which, (query,), b"certificate" * 10),
        task,
    )
    for value in values:
        assert re.search(r"\bb[\"']", repr(value)) is None
        assert value is task or f"task_id={id_.hex()}" in repr(value)
    assert "counts=<100 bytes>" in repr(query)
    assert f"operator={task.task.identities.operator.hex()}" in repr(task)
    assert hex_repr(which) == repr(which) == f"RoundId(task_id={id_.hex()}, task_name='usage', round=3)"
