"""The pages of the wire have the labels, lengths, limits and duties of the code: neither changes alone."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator

import pytest

from hubbub.accountant.mechanisms import one_round
from hubbub.client.session.session import OVER
from hubbub.client.submit import RetryPolicy
from hubbub.protos.enrollment import credentials
from hubbub.protos.identity.formats import FEED_ENTRY, KEY_RECORD, SUCCESSION, TASK, Label
from hubbub.protos.identity.successions import LONGEST_SUCCESSION, MOST_SUCCESSIONS
from hubbub.protos.refusals import EXPLANATIONS, TRANSIENT, Reason
from hubbub.protos.rpc.enrollment import MOST_REDEMPTIONS
from hubbub.protos.sealing import envelope
from hubbub.protos.sealing.suites import SUITES
from hubbub.protos.strict_json import DEEPEST, LARGEST, LARGEST_RESULTS, LONGEST_NUMBER, LONGEST_WHOLE
from hubbub.protos.task.draft import MAXIMUM_QUERIES
from hubbub.protos.task.schedule import (
    LONGEST_LEAD,
    SHORTEST_LEAD,
    Schedule,
    forgotten_after,
    prepared_from,
    taken_from,
)
from hubbub.protos.transport.channels import MAXIMUM_MESSAGE_BYTES, MAXIMUM_SUBMISSIONS
from hubbub.protos.transport.statuses import REASON_KEY, RETRY_KEY
from hubbub.protos.v1 import submission_pb2
from hubbub.queries.fields import MAXIMUM_LABEL_LENGTH, MAXIMUM_NAME_LENGTH, MAXIMUM_SYMBOLS
from hubbub.queries.query import Query
from hubbub.queries.randomizers.hash_functions import MOST_ROWS
from hubbub.queries.randomizers.hashed import MOST_CELLS
from hubbub.queries.texts.text import DIGESTS, MAXIMUM_TEXT_LENGTH
from hubbub.service.rpc.connect_json import LARGEST_JSON, MOST_MEMBERS
from hubbub.service.rpc.size_limits import FEW_BYTES, FEW_SUBMISSIONS_BYTES
from hubbub.service.transport.http_connection import CHUNK_BYTES, FREE_CHUNKS
from hubbub.service.transport.tls_connection import FREE_RECORDS, RECORD_BYTES
from support.source_tree import FOLDERS, ROOT

WIRE, REPORTS, CALLS = ((ROOT / "docs" / name).read_text() for name in ("wire.md", "wire-reports.md", "wire-calls.md"))
TEXT = re.sub(r"\s+", " ", WIRE + REPORTS + CALLS)
"""All pages, without their line breaks."""
ANSWERS = json.loads((ROOT / "tests" / "vectors" / "wire" / "answers.json").read_bytes())


def table(page: str, title: str) -> list[list[str]]:
    """The rows of the first table under a heading, without its head."""
    (section,) = re.findall(rf"(?ms)^##+ {re.escape(title)}$(.*?)(?=^##|\Z)", page)
    rows = re.findall(r"(?m)^\| (.*) \|$", section)
    return [re.split(r" \|(?: |$)", row) for row in rows[1:] if not row.startswith("---")]


# Labels

DEVICE = {
    TASK.format,
    FEED_ENTRY.format,
    KEY_RECORD.format,
    SUCCESSION.format,
    Label.KEY_SET.value,
    envelope._INNER_LABEL.decode(),
    envelope._HOP_LABEL.decode(),
    envelope._OUTER_LABEL.decode(),
    credentials._PROOF_LABEL.removesuffix(b"\0").decode(),
    "hubbub-text-1",
    "hubbub-prefix-1",
    "hubbub-hashed-1",
}
"""What a device signs, hashes, seals or checks under."""

LITERAL = re.compile(r"b?\"(hubbub(?:/v1 [a-z -]+|-[a-z]+[/-]1)(?![a-z]))")


def labels_of_the_source() -> Iterator[str]:
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*.py"):
            yield from LITERAL.findall(path.read_text())


def test_the_page_has_each_label_of_a_device_once() -> None:
    labels = [re.findall(r"`([^`]+)`", row[0])[0] for row in table(WIRE, "Labels")]
    assert sorted(labels) == sorted(DEVICE)


def test_no_label_of_the_source_is_in_no_document() -> None:
    found = {label.strip() for label in labels_of_the_source()}
    assert len(found) > 25
    assert found >= DEVICE
    formats = (path.read_text() for path in (ROOT / "docs" / "reference").glob("formats*.md"))
    pages = TEXT + re.sub(r"\s+", " ", "".join(formats))
    assert sorted(label for label in found if f"`{label}`" not in pages) == []


# Lengths and limits


def stated(words: str) -> None:
    """Fail unless the pages say so."""
    assert words in TEXT, words


def test_lengths_are_those_of_the_code() -> None:
    stated(f"a submission id of {envelope.SUBMISSION_ID_BYTES} random bytes")
    stated(f"a `device_key` of {credentials.KEY_BYTES} random bytes")
    stated(f"a credential's id ({credentials.CREDENTIAL_BYTES} bytes) and its key ({credentials.KEY_BYTES} bytes)")
    stated(f"The *proof* of a submission is BLAKE2b of {credentials.PROOF_BYTES} bytes")
    stated(f"The first hop is in position {envelope.FIRST_HOP}.")
    there = envelope.Destination(b"t" * envelope.TASK_ID_BYTES, 258, b"k" * envelope.TASK_ID_BYTES)
    assert there._encode() == b"t" * 32 + b"\0\0\1\2" + b"k" * 32
    stated("the task's id (32 bytes), the round (4 bytes) and the key set's hash (32 bytes)")


def test_limits_of_documents_are_those_of_the_code() -> None:
    limits = {row[0]: row[1] for row in table(WIRE, "Documents")}
    assert limits["values within each other"] == f"{DEEPEST} levels"
    assert limits["a whole number"] == f"{LONGEST_WHOLE} characters"
    assert limits["any other number"] == f"{LONGEST_NUMBER:,} characters"
    assert limits["a document"] == f"{LARGEST // 2**20} MiB"
    assert limits["a file of results"] == f"{LARGEST_RESULTS // 2**20} MiB"
    stated(f"of at most {LONGEST_SUCCESSION:,} bytes")
    stated(f"beside the feed, at most {MOST_SUCCESSIONS} of them")
    stated(f"1 to {MAXIMUM_QUERIES}: for each its")
    stated(f"| of a query | 1 to {MAXIMUM_NAME_LENGTH} printable characters")
    stated(f"then up to {MAXIMUM_NAME_LENGTH - 1} letters, digits")
    stated(f"| of a category | up to {MAXIMUM_LABEL_LENGTH} printable characters")
    stated(f"`levels` (1 to {MAXIMUM_SYMBOLS - 2:,})")
    stated(f"`length`, but at least {SHORTEST_LEAD} s and at most {LONGEST_LEAD:,} s")
    stated(f"is in NFC and UTF-8, and has at most {MAXIMUM_TEXT_LENGTH:,} characters")
    assert DIGESTS == 2**64 - 1
    assert MOST_CELLS == 2**20
    stated(f"`cells` (3 to 2²⁰), `rows` (1 to {MOST_ROWS:,})")


def test_limits_of_calls_are_those_of_the_code() -> None:
    limits = {row[1]: row[0] for row in table(CALLS, "The calls") if row[0][0].isdigit()}
    assert limits == {
        "a message in JSON": f"{LARGEST_JSON:,} bytes, {MOST_MEMBERS} members",
        "a message of `Submit`": f"{FEW_SUBMISSIONS_BYTES:,} bytes, or one submission if it is longer",
        f"a message of `SubmitBatch`; of any answer {MAXIMUM_MESSAGE_BYTES:,} bytes": (
            f"{MAXIMUM_SUBMISSIONS:,} submissions, {MAXIMUM_MESSAGE_BYTES:,} bytes"
        ),
        "a message of `Enroll`": f"{MOST_REDEMPTIONS:,} tickets",
        "a message of `GetRound` or `GetFeed`": f"{FEW_BYTES:,} bytes",
        "a message in chunks": f"{FREE_CHUNKS} chunks, and one more for each {CHUNK_BYTES} bytes",
        "a request": f"{FREE_RECORDS} records of TLS, and one more for each {RECORD_BYTES} bytes",
    }


def test_the_page_has_each_call() -> None:
    calls = [row[0].strip("`") for row in table(CALLS, "The calls") if row[0].startswith("`")]
    service = submission_pb2.DESCRIPTOR.services_by_name["SubmissionService"]
    assert sorted(calls) == sorted(method.name for method in service.methods)
    stated(f"a POST of a message of `protos/v1/submission.proto` to `/{service.full_name}/` and the call's name")


def test_suites_are_those_of_the_code() -> None:
    rows = {row[0].strip("`"): row[1:] for row in table(CALLS, "Suites")}
    assert list(rows) == list(SUITES)
    for name, suite in SUITES.items():
        _, public, private, added = rows[name]
        assert public.startswith(f"{suite.public_key_bytes:,} bytes")
        assert private.startswith(f"{suite.private_key_bytes:,} bytes")
        assert added == f"{suite.overhead_bytes:,} bytes"


def test_sizes_follow_from_the_suites() -> None:
    report = 4
    rows = {row[0].strip("`"): row[1:3] for row in table(CALLS, "Sizes")}
    for name, suite in SUITES.items():
        assert rows[name] == [f"{report + 2 * suite.overhead_bytes:,}", f"{report + suite.overhead_bytes:,}"]


# Examples


def test_the_example_of_a_round_has_the_times_of_the_code() -> None:
    noon = 12 * 3600
    schedule = Schedule(noon, 3600, 60, 1)
    times = prepared_from, taken_from, Schedule.cut, forgotten_after
    keys, taken, cut, forgotten = (
        f"{time(schedule, 0) // 60 // 60}:{time(schedule, 0) // 60 % 60:02}" for time in times
    )
    stated("a round from 12:00 to 13:00 with a `grace` of 60 s")
    stated(
        f"has keys from {keys} on. It takes submissions from {taken} to {cut}, and devices forget it at {forgotten}."
    )


def test_the_example_of_a_query_is_one_of_the_vectors() -> None:
    (example,) = re.findall(r"(?ms)^```json\n(.*?)^```$", WIRE)
    (vectors,) = (case["vectors"] for case in ANSWERS if case["queries"] == [json.loads(example)])
    drawn = {one["random"]["reports"][0]: one["reports"][0] for one in vectors if one["answer"] == "b"}
    assert table(REPORTS, "One example")[-1] == [
        "the report",
        f"`{drawn['20000000']}`",
        f"`{drawn['1fffffffffffffff']}`",
    ]
    read = Query.read("query", json.loads(example))
    epsilon = one_round(read.mechanism).epsilon_local
    stated(f"e^ε_local is 1 + 4·(7/8)/(1/8) = {math.exp(epsilon):.0f}, and ε_local is {epsilon:.2f}.")


def test_pauses_are_those_of_the_client() -> None:
    policy = RetryPolicy()
    stated(f"A call gets a time limit, such as {policy.call:g} s")
    stated(f"the lesser of {policy.longest_pause:g} s and {policy.first_pause:g}·2ⁿ⁻¹ s")
    assert [policy.pause(n, 1.0, 3.0) for n in (1, 2, 9)] == [3.2, 3.4, 13.0]


# Refusals

ROWS = [(cell, duty) for cell, duty, _ in table(CALLS, "What a refusal obliges to")]


def test_each_refusal_of_a_device_has_one_duty() -> None:
    named = [reason for cell, _ in ROWS for reason in re.findall(r"`([a-z_]+)`", cell)]
    assert len(set(named)) == len(named)
    to_devices = {reason.value for reason, each in EXPLANATIONS.items() if "device" in each.who or each.who == "anyone"}
    assert set(named) == to_devices
    assert ROWS[-1] == ("any other", "stop")


@pytest.mark.parametrize(
    ("duty", "reasons"),
    [("again", TRANSIENT), ("discard", OVER), ("redeem", {Reason.NOT_ENROLLED}), ("wait", {Reason.TOO_EARLY})],
)
def test_duties_are_what_the_client_does(duty: str, reasons: set[Reason]) -> None:
    assert {named for cell, of in ROWS if of == duty for named in re.findall(r"`([a-z_]+)`", cell)} == set(reasons)


FORBIDDEN = re.compile(r"(new|another) (submission )?id|(seal|draw|encode) (it )?again|keys again")


def test_no_refusal_asks_a_device_for_what_the_page_forbids() -> None:
    stated("No refusal is a reason to draw again, to seal again, or to take another submission id.")
    stated("Never ask for keys again to seal the same reports")
    messages = (ROOT / "docs" / "reference" / "errors-shuffler.md").read_text()
    refusals = re.findall(r"(?m)^\| (.*) \| `Refusal` \|$", messages)
    assert len(refusals) > 50
    assert [text for text in refusals if FORBIDDEN.search(text)] == []


def test_the_page_names_the_headers() -> None:
    stated(f"`{REASON_KEY}` is one of the")
    stated(f"wait for `{RETRY_KEY}`")
