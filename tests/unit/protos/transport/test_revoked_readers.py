"""The list of revoked readers is read as it was written, and what is something else is named."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.protos.transport.revoked_readers import NotAList, read_revoked, write_revoked
from hubbub.protos.transport.roles import reader_called

NAMES = st.from_regex(r"[a-z0-9]([a-z0-9._-]{0,30}[a-z0-9])?", fullmatch=True).map(reader_called) | st.just("reader")


@given(st.dictionaries(NAMES, st.integers(0, 2**32)))
def test_what_is_written_is_read(revoked: dict[str, int]) -> None:
    assert read_revoked(write_revoked(revoked)) == revoked


def test_comments_and_empty_lines_are_passed_over_and_the_later_time_counts() -> None:
    text = "# all\n\nreader 1970-01-01T00:00:05Z # who left\n  reader   1970-01-01T00:00:03Z\n"
    assert read_revoked(text) == {"reader": 5}


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("reader:ana", "line 2 is 'reader:ana'; it must be a reader and a time, such as reader:ana 2026-"),
        ("reader:ana yesterday", "line 2 is 'reader:ana yesterday'; it must be"),
        ("reader:ana 2026-12-01T00:00:00Z now", "it must be a reader and a time"),
        ("operator 2026-12-01T00:00:00Z", "line 2 is of 'operator', which is no reader"),
        ("reader:ANA 2026-12-01T00:00:00Z", "line 2 is of 'reader:ANA', which is no reader"),
        ("x" * 5000, "it must be a reader and a time"),
    ],
)
def test_what_is_no_reader_and_time_is_named(line: str, says: str) -> None:
    with pytest.raises(NotAList) as caught:
        read_revoked(f"# a list\n{line}\n")
    assert says in str(caught.value)
    assert len(str(caught.value)) < 250
