"""What follows from a suite follows for every suite there is, and a task of none of them is refused by name."""

import json
from dataclasses import replace
from hashlib import shake_256
from typing import Any

import pytest
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.bindings._rust import openssl
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM
from cryptography.hazmat.primitives.hpke import Suite as LibrarySuite

from hubbub.client.session.batching import most_per_call
from hubbub.protos.errors import EnvelopeError, KeyRecordError, SuiteError, TaskError
from hubbub.protos.identity.keys import Identity, KeyRecord, KeySet, Role
from hubbub.protos.sealing.envelope import Destination, InnerOpener, OuterOpener, Sealer, inner_bytes, outer_bytes
from hubbub.protos.sealing.suites import DEFAULT, MLKEM768_X25519, SUITES, X25519, Suite, suite_named
from hubbub.protos.task.draft import read_draft
from hubbub.protos.task.signed_task import SignedTask, read_task
from hubbub.protos.task.task import task_content
from hubbub.protos.transport.channels import MAXIMUM_MESSAGE_BYTES, SUBMISSION_OVERHEAD
from hubbub.queries.randomizers.unary import MAXIMUM_BITS
from hubbub.shuffler.mix.mix import RELEASED_BLOCK
from support.krr_queries import INNER_BYTES, report
from support.messages import UNKNOWN_TO_THIS_VERSION
from support.samples import Parties, sample_task, signed
from support.source_tree import ROOT

VECTORS = ROOT / "tests" / "vectors" / "wire"
VECTOR, SEALED = (json.loads((VECTORS / name).read_text()) for name in ("hpke-pq.json", "sealed.json"))
HERE, ID = Destination(b"t" * 32, 7, b"k" * 32), b"0123456789abcdef"
SHUFFLER, ANALYZER = Identity.generate(), Identity.generate()
every_suite = pytest.mark.parametrize("suite", SUITES.values(), ids=list(SUITES))


def test_suites_are_known_by_their_own_names_and_no_two_are_alike() -> None:
    assert {suite.name: suite for suite in SUITES.values()} == SUITES
    assert len({(suite.kem, suite.kdf, suite.aead) for suite in SUITES.values()}) == len(SUITES)
    assert DEFAULT is X25519 is suite_named("X25519-HKDF-SHA256-CHACHA20POLY1305")
    assert (X25519.public_key_bytes, X25519.private_key_bytes, X25519.overhead_bytes) == (32, 32, 48)
    hybrid = suite_named("MLKEM768-X25519")
    assert (hybrid.public_key_bytes, hybrid.private_key_bytes, hybrid.overhead_bytes) == (1216, 96, 1136)


@pytest.mark.parametrize("name", ["X25519", "mlkem768-x25519", "", None, 5, ["MLKEM768-X25519"], "x" * 10_000])
def test_a_suite_that_is_not_known_is_refused_by_name(name: object) -> None:
    with pytest.raises(SuiteError, match=f"{UNKNOWN_TO_THIS_VERSION}, which knows {X25519.name} and MLKEM") as error:
        suite_named(name)
    assert len(str(error.value)) < 250
    assert repr(name)[:70] in str(error.value)


# Keys


@every_suite
def test_keys_have_the_suite_s_lengths_and_are_never_alike(suite: Suite) -> None:
    pairs = [suite.generate_key() for _ in range(3)]
    assert {(len(private), len(public)) for private, public in pairs} == {
        (suite.private_key_bytes, suite.public_key_bytes)
    }
    assert len({half for pair in pairs for half in pair}) == 6


@every_suite
def test_keys_of_another_length_are_refused_without_being_shown(suite: Suite) -> None:
    private, public = suite.generate_key()
    for read, key in ((suite.private_key, private), (suite.public_key, public)):
        for wrong in (
            b"",
            key[:-1],
            key + b"\0",
            *(other.generate_key()[0] for other in SUITES.values() if other != suite),
        ):
            with pytest.raises(
                EnvelopeError, match=f"{len(wrong)} bytes and is not a key of {suite.name}, which"
            ) as error:
                read(wrong)
            assert not wrong or wrong.hex() not in str(error.value) + repr(error.value)


def test_a_machine_without_the_algorithms_says_so() -> None:
    class Lacking:
        private_bytes = public_bytes = 4

        def generate(self) -> tuple[bytes, bytes]:
            raise UnsupportedAlgorithm("not in this build")

        def private(self, _raw: bytes) -> object:
            raise UnsupportedAlgorithm("not in this build")

        public = private

    lacking = replace(MLKEM768_X25519, keys=Lacking())
    for use in (lacking.generate_key, lambda: lacking.public_key(b"1234"), lambda: lacking.private_key(b"1234")):
        with pytest.raises(EnvelopeError, match="built without MLKEM768-X25519; install its wheel"):
            use()


# Envelopes


@every_suite
def test_both_layers_open_where_they_were_sealed_for(suite: Suite) -> None:
    shuffler, analyzer = suite.generate_key(), suite.generate_key()
    sealer = Sealer(HERE, shuffler[1], analyzer[1], suite)
    inners = [sealer.inner(report(symbol), query) for query, symbol in enumerate((0, 2**32 - 1))]
    lengths = [inner_bytes(4, suite)] * 2
    outer = sealer.outer(inners, ID)
    assert [len(inner) for inner in inners] == lengths == [4 + suite.overhead_bytes] * 2
    assert len(outer) == outer_bytes(lengths, suite) == sum(lengths) + suite.overhead_bytes
    assert OuterOpener(HERE, shuffler[0], lengths, suite).open(outer, ID) == tuple(inners)
    assert [InnerOpener(HERE, analyzer[0], query, suite).open(inner) for query, inner in enumerate(inners)] == [
        report(0),
        report(2**32 - 1),
    ]


@every_suite
def test_an_envelope_that_was_changed_anywhere_does_not_open(suite: Suite) -> None:
    private, public = suite.generate_key()
    opener = InnerOpener(HERE, private, 0, suite)
    sealed = Sealer(HERE, public, public, suite).inner(report(1), 0)
    for place in range(len(sealed)):
        changed = bytes([*sealed[:place], sealed[place] ^ 1, *sealed[place + 1 :]])
        with pytest.raises(EnvelopeError, match="does not open"):
            opener.open(changed)
    for length in (0, 1, suite.overhead_bytes, len(sealed) - 1):
        with pytest.raises(EnvelopeError, match="does not open"):
            opener.open(sealed[:length])


@every_suite
def test_an_envelope_opens_nowhere_else(suite: Suite) -> None:
    private, public = suite.generate_key()
    sealed = Sealer(HERE, public, public, suite).inner(report(1), 0)
    for elsewhere in (replace(HERE, round=8), replace(HERE, task_id=b"T" * 32), replace(HERE, key_set_hash=b"K" * 32)):
        with pytest.raises(EnvelopeError):
            InnerOpener(elsewhere, private, 0, suite).open(sealed)
    for opener in (InnerOpener(HERE, private, 1, suite), InnerOpener(HERE, suite.generate_key()[0], 0, suite)):
        with pytest.raises(EnvelopeError):
            opener.open(sealed)


@every_suite
def test_nothing_is_sealed_to_a_key_whose_x25519_half_is_of_low_order(suite: Suite) -> None:
    """Zero is such a point. A hybrid would hold by its other half; whoever publishes such a key is up to something."""
    public = suite.generate_key()[1][:-32] + bytes(32)
    with pytest.raises(EnvelopeError, match="low order"):
        Sealer(HERE, public, public, suite).inner(report(1), 0)


@every_suite
def test_blocks_and_calls_with_the_widest_envelopes_fit_into_a_message(suite: Suite) -> None:
    widest = inner_bytes(MAXIMUM_BITS // 8, suite)
    assert RELEASED_BLOCK * (widest + 8) + 1000 < MAXIMUM_MESSAGE_BYTES
    outer = outer_bytes([widest] * 64, suite)
    assert 1 <= most_per_call(outer) <= MAXIMUM_MESSAGE_BYTES // (outer + SUBMISSION_OVERHEAD)


@pytest.mark.parametrize("sealed", SEALED["sealed"], ids=lambda sealed: sealed["suite"])
def test_what_was_sealed_by_an_earlier_version_opens(sealed: dict[str, Any]) -> None:
    suite, reports = suite_named(sealed["suite"]), [bytes.fromhex(each) for each in SEALED["reports"]]
    shuffler, analyzer = (bytes.fromhex(sealed[role]["private"]) for role in ("shuffler", "analyzer"))
    lengths = [inner_bytes(len(each), suite) for each in reports]
    inners = OuterOpener(HERE, shuffler, lengths, suite).open(bytes.fromhex(sealed["outer"]), ID)
    assert [inner.hex() for inner in inners] == sealed["inners"]
    assert [InnerOpener(HERE, analyzer, place, suite).open(inner) for place, inner in enumerate(inners)] == reports


def test_every_suite_has_something_that_was_sealed_earlier() -> None:
    assert [sealed["suite"] for sealed in SEALED["sealed"]] == list(SUITES)


# The library underneath


def test_the_hybrid_s_keys_are_written_as_its_draft_writes_them() -> None:
    """The draft's private key is a seed; expanded as the draft says, it is ours, and its public key is the draft's."""
    raw = shake_256(bytes.fromhex(VECTOR["skRm"])).digest(MLKEM768_X25519.private_key_bytes)
    sealed = bytes.fromhex(VECTOR["enc"] + VECTOR["ct"])
    info, aad, plain = (bytes.fromhex(VECTOR[name]) for name in ("info", "aad", "pt"))
    library = LibrarySuite(KEM.MLKEM768_X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)
    key = MLKEM768_X25519.private_key(raw)
    assert openssl.hpke._decrypt_with_aad(library, sealed, key, info, aad) == plain
    ours = MLKEM768_X25519.encrypt(plain, MLKEM768_X25519.public_key(bytes.fromhex(VECTOR["pkRm"])), info)
    assert library.decrypt(ours, key, info=info) == MLKEM768_X25519.decrypt(ours, key, info) == plain


# Tasks and key records


def test_a_task_that_names_no_suite_is_of_the_first_one_and_keeps_its_bytes() -> None:
    """The bytes themselves are in tests/vectors/signed, made before there was another suite."""
    parties = Parties.generate()
    task = sample_task(parties)
    assert task.suite == X25519.name
    assert task.hpke is X25519
    assert f'"suite":"{X25519.name}"'.encode() in task.canonical
    assert task.inner_bytes == (INNER_BYTES, INNER_BYTES)
    assert task.outer_bytes == 2 * INNER_BYTES + 48


@every_suite
def test_a_signed_task_of_each_suite_is_read_back(suite: Suite) -> None:
    parties = Parties.generate()
    task = replace(sample_task(parties), suite=suite.name)
    read = SignedTask.decode(signed(task, parties).encode()).check(parties.operator.public, parties.shuffler.public)
    assert read == task
    assert read.hpke is suite
    assert read.inner_bytes == (4 + suite.overhead_bytes,) * 2
    assert read.outer_bytes == 8 + 3 * suite.overhead_bytes


def test_a_task_of_an_unknown_suite_is_refused_by_name_whatever_else_it_says() -> None:
    content = {**task_content(sample_task(Parties.generate())), "suite": "MLKEM1024-P384", "queries": "of tomorrow"}
    with pytest.raises(
        TaskError, match=rf"suite 'MLKEM1024-P384' is {UNKNOWN_TO_THIS_VERSION}, which knows .*; run a version"
    ):
        read_task(content)


DRAFT = """
[task]
name = "usage"
start = 2026-01-01T00:00:00Z
length = "24h"
grace = "10m"
minimum_reports = 1000
{suite}
[privacy]
epsilon = 1.0
delta = 1e-6
[[query]]
name = "theme"
kind = "histogram"
categories = ["light", "dark"]
"""


def test_a_draft_names_its_suite() -> None:
    assert read_draft(DRAFT.format(suite="")).suite == X25519.name
    for name in SUITES:
        assert read_draft(DRAFT.format(suite=f'suite = "{name}"')).suite == name
    for wrong in ('"X25519"', "5", "[]"):
        with pytest.raises(TaskError, match=r"line 8: task\.suite is .*; it must be X25519-.* or MLKEM768-X25519"):
            read_draft(DRAFT.format(suite=f"suite = {wrong}"))


def key_record(role: Role, suite: Suite, identity: Identity) -> KeyRecord:
    return KeyRecord(role, b"t" * 32, 3, suite.name, suite.generate_key()[1], 100, 200)


@every_suite
def test_a_key_record_holds_a_key_of_its_suite_s_length(suite: Suite) -> None:
    record = key_record(Role.SHUFFLER, suite, SHUFFLER)
    assert KeyRecord.read(record.signed_by(SHUFFLER), SHUFFLER.public) == record
    for key in (record.public_key[:-1], record.public_key + b"\0"):
        with pytest.raises(KeyRecordError, match="public_key"):
            KeyRecord.read(replace(record, public_key=key).signed_by(SHUFFLER), SHUFFLER.public)


def test_a_round_s_two_keys_are_of_the_task_s_suite() -> None:
    """Neither service can move a task to another suite, alone or with the other."""
    for shuffler, analyzer, said in (
        (X25519, MLKEM768_X25519, "the shuffler's key record is for another suite: X25519-.*, not MLKEM768-X25519"),
        (MLKEM768_X25519, X25519, "the analyzer's key record is for another suite: X25519-.*, not MLKEM768-X25519"),
        (X25519, X25519, "the shuffler's key record is for another suite"),
    ):
        records = (
            key_record(Role.SHUFFLER, shuffler, SHUFFLER).signed_by(SHUFFLER),
            key_record(Role.ANALYZER, analyzer, ANALYZER).signed_by(ANALYZER),
        )
        with pytest.raises(KeyRecordError, match=said):
            KeySet(*records).read(b"t" * 32, 3, MLKEM768_X25519.name, SHUFFLER.public, ANALYZER.public)


def test_a_key_of_another_suite_is_not_sealed_to() -> None:
    classic, hybrid = X25519.generate_key()[1], MLKEM768_X25519.generate_key()[1]
    for keys, suite in (((classic, hybrid), X25519), ((hybrid, classic), MLKEM768_X25519)):
        with pytest.raises(EnvelopeError, match=f"not a key of {suite.name}"):
            Sealer(HERE, *keys, suite)
