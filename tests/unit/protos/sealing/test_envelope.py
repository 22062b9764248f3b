"""An envelope opens where it was sealed for, and nowhere else."""

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.protos.errors import EnvelopeError
from hubbub.protos.sealing.envelope import (
    FIRST_HOP,
    SUBMISSION_ID_BYTES,
    Destination,
    InnerOpener,
    OuterOpener,
    Sealer,
    _inner_info,
    inner_bytes,
    outer_bytes,
)
from hubbub.protos.sealing.suites import DEFAULT, SUITES, Suite
from support.krr_queries import INNER_BYTES, report

HERE = Destination(b"t" * 32, 7, b"k" * 32)
ELSEWHERE = [
    replace(HERE, task_id=b"T" + b"t" * 31),
    replace(HERE, task_id=b"t" * 31 + b"T"),
    replace(HERE, round=8),
    replace(HERE, round=7 << 24),
    replace(HERE, key_set_hash=b"k" * 31 + b"K"),
    replace(HERE, task_id=HERE.key_set_hash, key_set_hash=HERE.task_id),
]
ID = b"0123456789abcdef"
SHUFFLER, ANALYZER, STRANGER = DEFAULT.generate_key(), DEFAULT.generate_key(), DEFAULT.generate_key()
SEALER = Sealer(HERE, SHUFFLER[1], ANALYZER[1])
REPORT = report(1)
ONE = [INNER_BYTES]
"""The lengths of the inner envelopes of a task with one query."""


@given(st.binary(min_size=1, max_size=600), st.integers(0, 2**32 - 1))
def test_inner_envelope_opens_to_its_report(answered: bytes, query: int) -> None:
    sealed = SEALER.inner(answered, query)
    assert len(sealed) == inner_bytes(len(answered))
    assert InnerOpener(HERE, ANALYZER[0], query).open(sealed) == answered


@given(st.lists(st.integers(1, 600), max_size=6), st.binary(min_size=16, max_size=16))
def test_outer_envelope_opens_to_its_inner_envelopes_in_order(widths: list[int], submission_id: bytes) -> None:
    """Each query's inner envelopes have a length of their own."""
    inners = tuple(SEALER.inner(bytes([query]) * width, query) for query, width in enumerate(widths))
    lengths = [inner_bytes(width) for width in widths]
    sealed = SEALER.outer(inners, submission_id)
    assert len(sealed) == outer_bytes(lengths)
    opener = OuterOpener(HERE, SHUFFLER[0], lengths)
    assert opener.open(sealed, submission_id) == inners
    assert opener.open_merged(sealed, submission_id) == b"".join(inners)


def test_all_reports_and_queries_have_one_length() -> None:
    symbols = (0, 1, 255, 256, 65_535, 10**6, 2**32 - 1)
    lengths = {len(SEALER.inner(report(symbol), query)) for symbol, query in product(symbols, (0, 1, 63))}
    assert lengths == {INNER_BYTES} == {inner_bytes(4)} == {4 + DEFAULT.overhead_bytes}


def test_same_report_is_never_sealed_to_the_same_bytes() -> None:
    sealed = {SEALER.inner(REPORT, 0) for _ in range(50)}
    assert len(sealed) == 50
    assert len({envelope[:32] for envelope in sealed}) == 50


@pytest.mark.parametrize("elsewhere", ELSEWHERE, ids=range(len(ELSEWHERE)))
def test_envelopes_do_not_open_at_another_destination(elsewhere: Destination) -> None:
    inner = SEALER.inner(REPORT, 0)
    outer = SEALER.outer([inner], ID)
    with pytest.raises(EnvelopeError):
        InnerOpener(elsewhere, ANALYZER[0], 0).open(inner)
    with pytest.raises(EnvelopeError):
        OuterOpener(elsewhere, SHUFFLER[0], ONE).open(outer, ID)


def test_inner_envelope_does_not_open_for_another_query() -> None:
    inner = SEALER.inner(REPORT, 0)
    for query in (1, 2, 256, 1 << 24):
        with pytest.raises(EnvelopeError):
            InnerOpener(HERE, ANALYZER[0], query).open(inner)


def test_outer_envelope_does_not_open_under_another_submission_id() -> None:
    outer = SEALER.outer([SEALER.inner(REPORT, 0)], ID)
    opener = OuterOpener(HERE, SHUFFLER[0], ONE)
    for other in (b"", ID[:-1], ID + b"\0", ID[::-1], bytes(16)):
        with pytest.raises(EnvelopeError):
            opener.open(outer, other)


def test_envelopes_do_not_open_with_another_key() -> None:
    inner = SEALER.inner(REPORT, 0)
    outer = SEALER.outer([inner], ID)
    for key, _ in (SHUFFLER, STRANGER):
        with pytest.raises(EnvelopeError):
            InnerOpener(HERE, key, 0).open(inner)
    for key, _ in (ANALYZER, STRANGER):
        with pytest.raises(EnvelopeError):
            OuterOpener(HERE, key, ONE).open(outer, ID)


def test_layers_do_not_stand_in_for_each_other() -> None:
    """With one key for both roles, which no service has, the role in the info alone keeps the layers apart."""
    sealer = Sealer(HERE, SHUFFLER[1], SHUFFLER[1])
    inner = sealer.inner(REPORT, 0)
    for submission_id in (bytes(4), bytes(16), b""):
        with pytest.raises(EnvelopeError):
            OuterOpener(HERE, SHUFFLER[0], []).open(inner, submission_id)
    with pytest.raises(EnvelopeError):
        InnerOpener(HERE, SHUFFLER[0], 0).open(sealer.outer([], ID))


def test_every_changed_bit_is_refused() -> None:
    inner, outer = SEALER.inner(REPORT, 0), SEALER.outer([SEALER.inner(REPORT, 0)], ID)
    inner_opener, outer_opener = InnerOpener(HERE, ANALYZER[0], 0), OuterOpener(HERE, SHUFFLER[0], ONE)
    # Of the encapsulated key's 256 bits X25519 ignores the last; the key schedule takes it up all the same.
    for bit in range(8 * len(inner)):
        with pytest.raises(EnvelopeError):
            inner_opener.open(_flipped(inner, bit))
    for bit in range(8 * len(outer)):
        with pytest.raises(EnvelopeError):
            outer_opener.open(_flipped(outer, bit), ID)


def _flipped(value: bytes, bit: int) -> bytes:
    changed = bytearray(value)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def test_every_truncated_or_extended_envelope_is_refused() -> None:
    inner = SEALER.inner(REPORT, 0)
    opener = InnerOpener(HERE, ANALYZER[0], 0)
    for length in range(len(inner)):
        with pytest.raises(EnvelopeError):
            opener.open(inner[:length])
    for other in (inner + b"\0", b"\0" + inner, inner * 2, inner[::-1]):
        with pytest.raises(EnvelopeError):
            opener.open(other)


@given(st.binary(max_size=120))
def test_only_envelope_errors_come_out_of_any_bytes(envelope: bytes) -> None:
    with pytest.raises(EnvelopeError):
        InnerOpener(HERE, ANALYZER[0], 0).open(envelope)
    with pytest.raises(EnvelopeError):
        OuterOpener(HERE, SHUFFLER[0], ONE).open(envelope, ID)


def test_another_number_of_inner_envelopes_is_refused() -> None:
    inners = [SEALER.inner(REPORT, query) for query in range(3)]
    for sealed, expected in ((0, 1), (1, 0), (1, 2), (3, 2), (2, 3)):
        says = f"{sealed * INNER_BYTES} bytes, but the task's inner envelopes have {expected * INNER_BYTES} together"
        for opened in (OuterOpener.open, OuterOpener.open_merged):
            with pytest.raises(EnvelopeError, match=says):
                opened(OuterOpener(HERE, SHUFFLER[0], ONE * expected), SEALER.outer(inners[:sealed], ID), ID)


@pytest.mark.parametrize("widths", [[5], [3], [4, 1], [2, 3]], ids=str)
def test_inner_envelopes_of_other_lengths_are_refused(widths: list[int]) -> None:
    sealed = SEALER.outer([SEALER.inner(bytes(width), query) for query, width in enumerate(widths)], ID)
    with pytest.raises(EnvelopeError, match="inner envelopes have 52 together"):
        OuterOpener(HERE, SHUFFLER[0], ONE).open(sealed, ID)


def test_inner_envelopes_in_another_order_open_for_no_query() -> None:
    """Their lengths add up to the right ones, so the shuffler cannot tell; their device spoils its own report alone."""
    narrow, wide = SEALER.inner(bytes(4), 0), SEALER.inner(bytes(9), 1)
    sealed = SEALER.outer([wide, narrow], ID)
    opened = OuterOpener(HERE, SHUFFLER[0], [len(narrow), len(wide)]).open(sealed, ID)
    assert [len(inner) for inner in opened] == [len(narrow), len(wide)]
    for query, inner in enumerate(opened):
        with pytest.raises(EnvelopeError):
            InnerOpener(HERE, ANALYZER[0], query).open(inner)


@pytest.mark.parametrize("length", [0, 3, 4, 5, 512])
def test_content_is_as_long_as_its_envelope_says(length: int) -> None:
    """So whoever checks an envelope's length has checked the report's: a report of another width cannot hide in it."""
    sealed = SEALER.inner(bytes(length), 0)
    assert len(sealed) == inner_bytes(length)
    assert len(InnerOpener(HERE, ANALYZER[0], 0).open(sealed)) == len(sealed) - DEFAULT.overhead_bytes


@pytest.mark.parametrize("key", [b"", b"k" * 31, b"k" * 33, bytes(64)], ids=len)
def test_public_keys_of_another_length_are_refused(key: bytes) -> None:
    for pair in ((key, ANALYZER[1]), (SHUFFLER[1], key)):
        with pytest.raises(EnvelopeError):
            Sealer(HERE, *pair)


LOW_ORDER = [
    bytes(32),
    b"\x01" + bytes(31),
    bytes.fromhex("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"),
    bytes.fromhex("5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157"),
    bytes.fromhex("ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"),
]
"""Points of low order on Curve25519 (RFC 7748, section 7): the shared secret would be zero, whoever computes it."""


@pytest.mark.parametrize("key", LOW_ORDER, ids=range(len(LOW_ORDER)))
def test_nothing_is_sealed_to_a_point_of_low_order(key: bytes) -> None:
    with pytest.raises(EnvelopeError, match="low order"):
        Sealer(HERE, SHUFFLER[1], key).inner(REPORT, 0)
    with pytest.raises(EnvelopeError, match="low order"):
        Sealer(HERE, key, ANALYZER[1]).outer([SEALER.inner(REPORT, 0)], ID)


@pytest.mark.parametrize("key", LOW_ORDER, ids=range(len(LOW_ORDER)))
def test_envelope_from_a_point_of_low_order_is_refused(key: bytes) -> None:
    with pytest.raises(EnvelopeError):
        InnerOpener(HERE, ANALYZER[0], 0).open(key + bytes(INNER_BYTES - 32))


@pytest.mark.parametrize(
    ("inners", "submission_id"),
    [
        ([b""], ID),
        ([b"x" * (DEFAULT.overhead_bytes - 1)], ID),
        ([b"x" * DEFAULT.overhead_bytes], ID),
        ([b"x" * INNER_BYTES, b"x" * DEFAULT.overhead_bytes], ID),
        ([], b""),
        ([], ID[:-1]),
        ([], ID + b"\0"),
    ],
    ids=range(7),
)
def test_nothing_that_is_no_envelope_is_sealed(inners: list[bytes], submission_id: bytes) -> None:
    """That all devices' inner envelopes are of one length follows from their reports (tests of client.encode)."""
    with pytest.raises(EnvelopeError, match=f"{SUBMISSION_ID_BYTES} bytes"):
        SEALER.outer(inners, submission_id)


@pytest.mark.parametrize(
    "parts",
    [
        {"task_id": b"t" * 31},
        {"task_id": b"t" * 33},
        {"key_set_hash": b""},
        {"key_set_hash": b"k" * 33},
        {"round": -1},
        {"round": 2**32},
        {"task_id": b"t" * 31, "key_set_hash": b"k" * 33},
    ],
    ids=range(7),
)
def test_destination_has_parts_of_fixed_width_only(parts: dict[str, Any]) -> None:
    with pytest.raises(EnvelopeError):
        replace(HERE, **parts)


def test_info_of_different_destinations_layers_and_places_differ() -> None:
    infos = []
    for destination in (HERE, *ELSEWHERE):
        outer = Sealer(destination, SHUFFLER[1], ANALYZER[1])._outer_info
        infos += [outer + place for place in (b"", bytes(4), bytes(16))]
        infos += [_inner_info(destination, query, hop) for query, hop in product((0, 1, 2**24), (None, 2, 3, 9))]
    assert len(set(infos)) == len(infos) == 15 * (1 + len(ELSEWHERE))


@pytest.mark.parametrize("suite", SUITES.values(), ids=list(SUITES))
def test_layers_of_hops_open_one_after_the_other_each_with_its_own_key_and_place(suite: Suite) -> None:
    analyzer, *hops = (suite.generate_key() for _ in range(3))
    sealer = Sealer(HERE, suite.generate_key()[1], analyzer[1], suite, [public for _, public in hops])
    envelope = sealer.inner(REPORT, 7)
    for place, (private, _) in enumerate(hops, FIRST_HOP):
        assert len(envelope) == inner_bytes(len(REPORT), suite, 2 + len(hops) + 1 - place)
        wrong = [(analyzer[0], 7, None), (private, 8, place), (private, 7, place + 1), (private, 7, None)]
        for key, query, hop in wrong:
            with pytest.raises(EnvelopeError):
                InnerOpener(HERE, key, query, suite, hop).open(envelope)
        envelope = InnerOpener(HERE, private, 7, suite, place).open(envelope)
    assert InnerOpener(HERE, analyzer[0], 7, suite).open(envelope) == REPORT


def test_errors_say_nothing_of_what_was_inside() -> None:
    with pytest.raises(EnvelopeError) as caught:
        InnerOpener(HERE, STRANGER[0], 0).open(SEALER.inner(b"123456", 0))
    assert "123456" not in str(caught.value)
