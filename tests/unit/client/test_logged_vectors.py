"""The vectors of tasks that demand a transparency log: the Python client and its feed take and refuse them."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from hubbub.client import feed as client_feed
from hubbub.client.feed import TaskFeed
from hubbub.client.session.trust import trusted_task
from hubbub.protos.errors import HubbubError
from hubbub.protos.task.feed.entry import FeedEntry, FeedError
from hubbub.protos.task.feed.feed import FeedPage
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.transparency_log.policy import NotLogged
from vectors.make_logged import FILE, encoded

KEPT = json.loads(FILE.read_bytes())
KEYS = bytes.fromhex(KEPT["operator_key"]), bytes.fromhex(KEPT["shuffler_key"])
WORDS = {
    "proof": r"there is no proof of it|not a proof|signed the checkpoint twice|not a signed checkpoint",
    "inclusion": r"is not entry|not one of its checkpoint",
    "log": r"is of log 'stats.example/two', not of|has not signed the checkpoint with the key given",
    "witnesses": r"[01] of the known witnesses have signed .* but 2 must have",
    "signature": r"the signature of (witness|log) .* is wrong",
    "value": r"log(\.|_proof| must)|members that are not read here",
}
"""What an error says, by the word for what is wrong."""


def ids(cases: list[dict[str, str]]) -> list[str]:
    return [each["what"] for each in cases]


def test_the_file_is_what_its_program_writes() -> None:
    assert encoded() == FILE.read_bytes()


@pytest.mark.parametrize("case", KEPT["cases"], ids=ids(KEPT["cases"]))
def test_a_task_is_taken_or_refused(case: dict[str, str]) -> None:
    document = base64.b64decode(case["task"])
    proof = None if case["proof"] is None else base64.b64decode(case["proof"])
    if case["because"] is None:
        assert trusted_task(document, *KEYS, proof) == SignedTask.decode(document).task
        return
    kind = HubbubError if case["because"] == "value" else NotLogged
    with pytest.raises(kind, match=WORDS[case["because"]]):
        trusted_task(document, *KEYS, proof)


@pytest.mark.parametrize("case", KEPT["entries"], ids=ids(KEPT["entries"]))
def test_an_entry_of_a_feed_is_taken_or_refused(case: dict[str, str], tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(client_feed, "trusted_authority", lambda _given: b"")
    feed = TaskFeed(
        allow={"flights"},
        operator_key=KEYS[0],
        shuffler_key=KEYS[1],
        folder=tmp_path,
        shuffler="127.0.0.1:7301",
        authority=b"",
        clock=lambda: 0.0,
    )
    document = base64.b64decode(case["entry"])
    if case["because"] is not None:
        with pytest.raises(FeedError, match=WORDS[case["because"]]):
            feed._take(feed._known(), FeedPage((document,)))
        assert feed.tasks() == {}
        return
    feed._take(feed._known(), FeedPage((document,)))
    (task,), (proof,) = feed.tasks().values(), feed.log_proofs().values()
    entry = FeedEntry.decode(document)
    assert (entry.signed, entry.log_proof) == (SignedTask.decode(task), proof)
    trusted_task(task, *KEYS, proof)


def test_cases_have_each_word() -> None:
    assert {case["because"] for case in KEPT["cases"]} == {None, *WORDS}
