"""The vectors of feeds: the Python client takes and refuses these answers of a shuffler."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from hubbub.client import feed as client_feed
from hubbub.client.feed import TaskFeed
from hubbub.protos.errors import HubbubError
from hubbub.protos.task.feed.entry import FeedEntry
from hubbub.protos.task.feed.feed import FeedPage
from hubbub.protos.task.feed.files import add_entry
from vectors.make_feeds import FILE, encoded

KEPT = json.loads(FILE.read_bytes())


def documents(texts: list[str]) -> tuple[bytes, ...]:
    return tuple(base64.b64decode(text) for text in texts)


def test_the_file_is_what_its_program_writes() -> None:
    assert encoded() == FILE.read_bytes()


@pytest.mark.parametrize("case", KEPT["cases"], ids=lambda case: case["what"])
def test_an_answer_is_taken_or_refused(case: dict[str, Any], tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(client_feed, "trusted_authority", lambda _given: b"")
    for document in documents(case["taken"]):
        add_entry(tmp_path, FeedEntry.decode(document))
    feed = TaskFeed(
        allow=set(KEPT["names"]),
        operator_key=bytes.fromhex(KEPT["operator_key"]),
        shuffler_key=bytes.fromhex(KEPT["shuffler_key"]),
        folder=tmp_path,
        shuffler="127.0.0.1:7301",
        authority=b"",
        clock=lambda: 0.0,
    )
    page = FeedPage(documents(case["entries"]), documents(case["successions"]))
    if case["because"] is not None:
        with pytest.raises(HubbubError):
            feed._take(feed._known(), page)
        return
    feed._take(feed._known(), page)
    assert sorted(feed.tasks()) == case["tasks"]


def test_cases_have_each_word() -> None:
    words = {case["because"] for case in KEPT["cases"]}
    assert words == {None, "number", "previous", "signature", "value", "canonical", "format", "budget"}
