"""Identities stay private, and key records speak for one role, round and task only."""

import pickle
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from hubbub.protos.errors import FormatError, HubbubError, KeyRecordError, SignatureError
from hubbub.protos.identity.documents import SignedDocument, canonical, sign
from hubbub.protos.identity.formats import KEY_RECORD, SIGNED
from hubbub.protos.identity.keys import (
    CORE_ROLES,
    LATEST_TIME,
    Identity,
    KeyRecord,
    KeySet,
    Role,
    identity_from_hex,
    load_public,
    parse_public,
    write_private,
)
from hubbub.protos.sealing.suites import DEFAULT

KEY = Identity.generate()
OTHER = Identity.generate()
TASK_ID = bytes(range(32))
RECORD = KeyRecord(Role.SHUFFLER, TASK_ID, 3, DEFAULT.name, b"p" * 32, 100, 200)


def content_of(record: KeyRecord = RECORD) -> dict[str, Any]:
    return record.signed_by(KEY).content(KEY_RECORD, KEY.public)


def read(content: dict[str, Any], label: str = KEY_RECORD.format) -> KeyRecord:
    body = canonical(content)
    return KeyRecord.read(SignedDocument(body, sign(label, body, KEY.key)), KEY.public)


# Identities


def test_identity_is_saved_for_its_owner_only_and_loads_again(tmp_path: Path) -> None:
    KEY.save(tmp_path / "key.pem")
    KEY.save_public(tmp_path / "key.pub.pem")
    assert stat.S_IMODE((tmp_path / "key.pem").stat().st_mode) == 0o600
    assert Identity.load(tmp_path / "key.pem").public == KEY.public == load_public(tmp_path / "key.pub.pem")
    assert b"PRIVATE" not in (tmp_path / "key.pub.pem").read_bytes()


def test_existing_private_file_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    write_private(path, b"first")
    with pytest.raises(FileExistsError):
        OTHER.save(path)
    assert path.read_bytes() == b"first"


def test_private_key_is_neither_printed_nor_pickled() -> None:
    secret = KEY.key.private_bytes_raw()
    for text in (repr(KEY), str(KEY), f"{KEY}"):
        assert secret.hex() not in text
        assert repr(secret) not in text
    with pytest.raises(TypeError):
        pickle.dumps(KEY)


def pem(key: Any, password: bytes | None = None) -> bytes:
    protection = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    return bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, protection))


def public_pem(key: Any) -> bytes:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return bytes(key.public_key().public_bytes(serialization.Encoding.PEM, form))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not a key",
        b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
        pem(ec.generate_private_key(ec.SECP256R1())),
        pem(X25519PrivateKey.generate()),
        pem(KEY.key, b"password"),
        public_pem(KEY.key),
    ],
    ids=["empty", "text", "broken", "elliptic curve", "exchange", "with a password", "public"],
)
def test_file_of_another_kind_is_no_identity(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "key.pem"
    path.write_bytes(content)
    with pytest.raises(SignatureError, match=r"key\.pem has"):
        Identity.load(path)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not a key",
        pem(KEY.key),
        public_pem(X25519PrivateKey.generate()),
        public_pem(ec.generate_private_key(ec.SECP256R1())),
    ],
    ids=["empty", "text", "private", "exchange", "elliptic curve"],
)
def test_file_of_another_kind_is_no_public_key(content: bytes) -> None:
    with pytest.raises(SignatureError, match="pinned has"):
        parse_public(content, "pinned")


def test_missing_key_files_are_named(tmp_path: Path) -> None:
    for load in (Identity.load, load_public):
        with pytest.raises(SignatureError, match=r"cannot read .*none\.pem: No such file"):
            load(tmp_path / "none.pem")
        with pytest.raises(SignatureError, match="Is a directory"):
            load(tmp_path)


def test_identity_of_another_form_is_refused_by_role() -> None:
    assert identity_from_hex(KEY.public.hex(), Role.ANALYZER) == KEY.public
    for text in ("", KEY.public.hex().upper(), KEY.public.hex()[:-2], None, KEY.public.hex()[:-2] + "  "):
        with pytest.raises(SignatureError, match="identity of the analyzer must be 64"):
            identity_from_hex(text, Role.ANALYZER)


# Key records


def test_key_record_by_another_identity_is_refused() -> None:
    with pytest.raises(SignatureError, match="key record"):
        KeyRecord.read(RECORD.signed_by(OTHER), KEY.public)


@given(
    st.builds(
        KeyRecord,
        st.sampled_from(CORE_ROLES),
        st.binary(min_size=32, max_size=32),
        st.integers(0, 2**32 - 1),
        st.just(DEFAULT.name),
        st.binary(min_size=32, max_size=32),
        st.integers(0, 2**32),
        st.integers(2**32, LATEST_TIME),
    )
)
def test_key_record_comes_back_as_it_was(record: KeyRecord) -> None:
    assert KeyRecord.read(record.signed_by(KEY), KEY.public) == record


def test_same_content_under_another_label_is_no_key_record() -> None:
    for kind in set(SIGNED) - {KEY_RECORD}:
        with pytest.raises(SignatureError):
            read(content_of(), kind.format)


def test_key_id_is_the_key_s() -> None:
    assert replace(RECORD, public_key=b"q" * 32).key_id != RECORD.key_id
    with pytest.raises(KeyRecordError):
        read({**content_of(), "key_id": "0" * 16})


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("role", "nobody"),
        ("role", ["shuffler"]),
        ("role", None),
        ("round", -1),
        ("round", 1.5),
        ("round", True),
        ("round", 2**32),
        ("round", 2.0**53),
        ("not_before", "100"),
        ("not_before", 201),
        ("not_after", 1e9 + 0.5),
        ("not_after", 1e300),
        ("not_after", 2.0**53),
        ("public_key", "70" * 31),
        ("public_key", "70" * 33),
        ("public_key", "AB" * 32),
        ("public_key", "70" * 31 + "  "),
        ("public_key", ""),
        ("public_key", None),
        ("task", "00" * 31),
        ("task", 5),
        ("suite", "P256"),
        ("suite", None),
        ("suite", "x" * 10_000),
        ("more", 1),
    ],
    ids=lambda value: f"{value!s:.12}",
)
def test_signed_content_of_another_form_is_refused(member: str, value: Any) -> None:
    with pytest.raises(KeyRecordError, match="not a key record of") as caught:
        read({**content_of(), member: value})
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("member", sorted(content_of()))
def test_missing_member_is_refused(member: str) -> None:
    content = content_of()
    del content[member]
    with pytest.raises((KeyRecordError, FormatError)):
        read(content)


def test_other_statements_of_the_same_party_are_no_key_records() -> None:
    for content in ({}, {"format": "hubbub-batch/1"}, {"body": content_of()}):
        with pytest.raises(FormatError):
            read(content)


def test_record_is_for_one_role_task_round_and_suite() -> None:
    RECORD.check_for(Role.SHUFFLER, TASK_ID, 3, DEFAULT.name)
    for arguments, what in (
        ((Role.ANALYZER, TASK_ID, 3, DEFAULT.name), "another role"),
        ((Role.SHUFFLER, bytes(32), 3, DEFAULT.name), "another task"),
        ((Role.SHUFFLER, TASK_ID, 4, DEFAULT.name), "another round"),
        ((Role.SHUFFLER, TASK_ID, 3, "other"), "another suite"),
    ):
        with pytest.raises(KeyRecordError, match=what):
            RECORD.check_for(*arguments)


def test_record_is_valid_from_its_first_to_its_last_second() -> None:
    for now in (100, 150.5, 200):
        RECORD.check_time(now)
    for now in (99.9, 200.1, float("nan")):
        with pytest.raises(KeyRecordError, match=f"{RECORD.key_id} is valid from 100 to 200.*clock"):
            RECORD.check_time(now)


# Key sets


ANALYZER = replace(RECORD, role=Role.ANALYZER, public_key=b"a" * 32)
KEY_SET = KeySet(RECORD.signed_by(KEY), ANALYZER.signed_by(OTHER))


def read_set(key_set: KeySet) -> tuple[KeyRecord, KeyRecord]:
    return key_set.read(TASK_ID, 3, DEFAULT.name, KEY.public, OTHER.public)


def test_key_set_gives_both_records() -> None:
    assert read_set(KEY_SET) == (RECORD, ANALYZER)


def test_key_set_of_another_round_role_or_signer_is_refused() -> None:
    late = replace(ANALYZER, round=4)
    for wrong in (
        KeySet(KEY_SET.analyzer, KEY_SET.shuffler),
        KeySet(KEY_SET.shuffler, KEY_SET.shuffler),
        KeySet(RECORD.signed_by(OTHER), KEY_SET.analyzer),
        KeySet(KEY_SET.shuffler, ANALYZER.signed_by(KEY)),
        KeySet(KEY_SET.shuffler, late.signed_by(OTHER)),
        KeySet(KEY_SET.shuffler, RECORD.signed_by(OTHER)),
        KeySet(KEY_SET.shuffler, replace(ANALYZER, task_id=bytes(32)).signed_by(OTHER)),
    ):
        with pytest.raises(HubbubError):
            read_set(wrong)


def test_key_set_hash_tells_every_change_of_a_record() -> None:
    changed = [
        replace(RECORD, public_key=b"q" * 32),
        replace(RECORD, not_before=101),
        replace(RECORD, not_after=201),
        replace(RECORD, round=4),
    ]
    sets = [KEY_SET, KeySet(KEY_SET.analyzer, KEY_SET.shuffler)]
    sets += [KeySet(record.signed_by(KEY), KEY_SET.analyzer) for record in changed]
    sets += [KeySet(KEY_SET.shuffler, replace(record, role=Role.ANALYZER).signed_by(OTHER)) for record in changed]
    assert len({key_set.hash for key_set in sets}) == len(sets)


def test_key_set_hash_does_not_depend_on_the_signatures() -> None:
    """A signer may make many valid signatures of one record; they must not tell devices apart."""
    other = KeySet(SignedDocument(KEY_SET.shuffler.body, b"\0" * 64), KEY_SET.analyzer)
    assert other.hash == KEY_SET.hash


def test_key_set_hash_keeps_the_two_bodies_apart() -> None:
    def of(first: bytes, second: bytes) -> bytes:
        return KeySet(SignedDocument(first, b""), SignedDocument(second, b"")).hash

    assert len({of(b"ab", b"c"), of(b"a", b"bc"), of(b"abc", b""), of(b"", b"abc")}) == 4
