"""Pieces that were joined come back as they were."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as some

from hubbub.service.fixed_width import split_records


@given(some.binary(max_size=200), some.integers(1, 40))
def test_pieces_are_those_that_slicing_gives(joined: bytes, width: int) -> None:
    found = split_records(joined, width)
    assert found == [joined[start : start + width] for start in range(0, len(joined), width)]
    assert all(type(piece) is bytes for piece in found)
