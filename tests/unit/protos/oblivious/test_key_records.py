"""A device takes the oblivious key from the shuffler that its task names, for its time, and from nobody else."""

import json
from collections.abc import Sequence

import pytest

from hubbub.protos.errors import KeyRecordError, SignatureError
from hubbub.protos.identity.documents import SignedDocument, canonical
from hubbub.protos.identity.formats import KEY_RECORD, OBLIVIOUS_KEY
from hubbub.protos.identity.keys import Identity
from hubbub.protos.oblivious.encapsulation import ObliviousKey
from hubbub.protos.oblivious.key_records import (
    LARGEST_RECORDS,
    MOST_RECORDS,
    STEP_SECONDS,
    VALID_SECONDS,
    ObliviousRecord,
    read_oblivious_record,
    write_oblivious_records,
)

NOW = 1_800_000_000
SHUFFLER, OTHER = Identity.generate(), Identity.generate()
CONFIGURATION = ObliviousKey.derived(3, bytes(32)).configuration
RECORD = ObliviousRecord.at(CONFIGURATION, NOW)


def read(answer: bytes, identity: Identity = SHUFFLER, now: float = NOW) -> ObliviousRecord:
    return read_oblivious_record(answer, lambda _successions: identity.public, now)


def test_a_record_is_read_as_it_was_signed() -> None:
    answer = write_oblivious_records([RECORD.signed_by(OTHER), RECORD.signed_by(SHUFFLER)])
    assert read(answer) == RECORD == read(answer, OTHER)


def test_records_of_one_day_are_the_same() -> None:
    day = NOW - NOW % STEP_SECONDS
    assert {ObliviousRecord.at(CONFIGURATION, day + seconds) for seconds in (0, 1.5, STEP_SECONDS - 1)} == {RECORD}
    assert ObliviousRecord.at(CONFIGURATION, day + STEP_SECONDS) != RECORD


def test_a_device_whose_clock_is_a_day_behind_has_a_key_at_every_hour() -> None:
    day = NOW - NOW % STEP_SECONDS
    for signed_at in (day, day + 1, day + STEP_SECONDS - 1):
        record = ObliviousRecord.at(CONFIGURATION, signed_at)
        answer = write_oblivious_records([record.signed_by(SHUFFLER)])
        assert read(answer, now=signed_at - STEP_SECONDS) == record == read(answer, now=signed_at + 12 * STEP_SECONDS)
    assert ObliviousRecord.at(CONFIGURATION, 5).not_before == 0


def test_a_record_that_another_party_signed_is_refused() -> None:
    with pytest.raises(SignatureError, match="nothing was sent"):
        read(write_oblivious_records([RECORD.signed_by(OTHER)]))
    with pytest.raises(SignatureError, match="nothing was sent"):
        read(write_oblivious_records([]))


def test_a_changed_key_is_refused() -> None:
    document = RECORD.signed_by(SHUFFLER)
    changed = document.body.replace(CONFIGURATION.public_key.hex().encode(), bytes(32).hex().encode())
    assert changed != document.body
    with pytest.raises(SignatureError):
        read(write_oblivious_records([SignedDocument(changed, document.signature)]))


@pytest.mark.parametrize("now", [RECORD.not_before - 1, RECORD.not_after + 1])
def test_a_record_out_of_its_time_is_refused(now: int) -> None:
    assert read(write_oblivious_records([RECORD.signed_by(SHUFFLER)]), now=RECORD.not_before + VALID_SECONDS) == RECORD
    with pytest.raises(KeyRecordError, match="old copies"):
        read(write_oblivious_records([RECORD.signed_by(SHUFFLER)]), now=now)


@pytest.mark.parametrize(
    "change",
    [
        {"not_before": -1},
        {"not_before": True},
        {"not_before": RECORD.not_after + 1},
        {"not_after": RECORD.not_after + 1},
        {"key_configuration": "00"},
        {"key_configuration": CONFIGURATION.encode().hex().upper()},
        {"key_configuration": 5},
        {"more": 1},
    ],
)
def test_a_signed_record_of_another_form_is_refused(change: dict[str, object]) -> None:
    content = {**json.loads(RECORD.signed_by(SHUFFLER).body), **change}
    with pytest.raises(KeyRecordError, match="not a record"):
        read(write_oblivious_records([SignedDocument.make(OBLIVIOUS_KEY, content, SHUFFLER.key)]))


def test_a_key_record_of_a_round_is_no_oblivious_key() -> None:
    content = {**json.loads(RECORD.signed_by(SHUFFLER).body), "format": KEY_RECORD.format}
    with pytest.raises(SignatureError):
        read(write_oblivious_records([SignedDocument.make(KEY_RECORD, content, SHUFFLER.key)]))


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"[]",
        b'{"records":[]}',
        canonical({"records": {}, "successions": []}),
        canonical({"records": [], "successions": [1]}),
        canonical({"records": [], "successions": ["a"] * 65}),
        canonical({"records": [5], "successions": []}),
        canonical({"records": [RECORD.signed_by(OTHER).as_json()] * (MOST_RECORDS + 1), "successions": []}),
        write_oblivious_records([RECORD.signed_by(SHUFFLER)]) + b" ",
        bytes(LARGEST_RECORDS + 1),
    ],
    ids=range(10),
)
def test_malformed_answers_are_refused(answer: bytes) -> None:
    with pytest.raises(SignatureError):
        read(answer)


def test_the_successions_decide_which_identity_is_trusted() -> None:
    asked = list[Sequence[bytes]]()

    def after(successions: Sequence[bytes]) -> bytes:
        asked.append(successions)
        return OTHER.public

    answer = write_oblivious_records([RECORD.signed_by(SHUFFLER), RECORD.signed_by(OTHER)], [b"a succession"])
    assert read_oblivious_record(answer, after, NOW) == RECORD
    assert asked == [[b"a succession"]]
