"""What is printed ends up in logs, in errors, and in reports of crashes."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import importlib
import os
import re
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from hubbub.analyzer.stores.postgres.keyring import DeliverySecrets as AnalyzerSecrets
from hubbub.analyzer.stores.postgres.sealing import DeliveryCipher
from hubbub.client.device import DeviceReceipt
from hubbub.client.enrollment.credentials import Found
from hubbub.client.fleet import _PreparedSubmission
from hubbub.client.preview import PreviewedQuery
from hubbub.client.session.sealed_submission import Ending, Outcome, SealedSubmission
from hubbub.client.session.unit_of_work import Stored
from hubbub.client.state.enrollment import StoredEnrollment
from hubbub.client.state.longitudinal import MemoryUpdate
from hubbub.client.state.rounds import Drawn, RoundRef, StoredSubmission
from hubbub.client.state.store import Seen
from hubbub.deploy.conformance.envelope_mistakes import RoundKeys, TriedContext
from hubbub.deploy.conformance.judge import TriedDevice
from hubbub.deploy.conformance.logged_tasks import RefusedTask
from hubbub.deploy.conformance.trial import _Handed
from hubbub.deploy.pki.authority import Authority
from hubbub.deploy.pki.tickets import EnrolledDevices
from hubbub.pages.dashboard.access import Access
from hubbub.protos.cluster import FollowerPosition, KeyringChanges, KeyringRow
from hubbub.protos.enrollment.admitted import RoundSecrets
from hubbub.protos.enrollment.credentials import Credential, CredentialId
from hubbub.protos.enrollment.tickets import Ticket, TreeHead
from hubbub.protos.identity.documents import SignedDocument
from hubbub.protos.identity.keys import Identity, KeySet
from hubbub.protos.merkle import InclusionProof
from hubbub.protos.messages import Envelopes, KeyState, Receipt, Redemption, Submission
from hubbub.protos.oblivious.binary_http import BinaryRequest, BinaryResponse
from hubbub.protos.oblivious.encapsulation import ObliviousKey
from hubbub.protos.records.batch import BatchId
from hubbub.protos.sealing.envelope import Destination, InnerOpener, OuterOpener
from hubbub.protos.sealing.suites import DEFAULT
from hubbub.protos.transport.channels import Pems
from hubbub.queries.longitudinal.over_rounds import Encoded, RoundContext
from hubbub.queries.texts.prefixes import Prefix
from hubbub.service.processes.opening_pool import OpeningJob
from hubbub.service.receiving.receiver import StoredKey
from hubbub.service.receiving.round_keys import NewRoundKey
from hubbub.service.spark.files import Files
from hubbub.shuffler.admit.checks.check import Arrival
from hubbub.shuffler.admit.openers import _Piece, _Waiting
from hubbub.shuffler.admit.opening_worker import RoundKey
from hubbub.shuffler.keys import RoundKeyMaterial
from hubbub.shuffler.mix.spark import Mixing, keys_at
from hubbub.shuffler.records import MasterSecret, Opened, RedeemedTicket, Revoked
from hubbub.shuffler.stores.postgres.keyring import StorageSecrets
from hubbub.shuffler.stores.postgres.sealing import RoundCipher
from support.planted_secrets import found_in
from support.source_tree import MODULES, ROOT

HOLDING = re.compile(r"\b(bytes|Value|Answers|Memory|Memories)\b")
"""Types whose values may be secrets."""

PUBLIC = {
    # What is signed, and published as it is.
    "body", "signature", "signatures", "attestation", "successions", "records", "certificate", "table",
    "oblivious_records",
    "operator_signature", "shuffler_signature",
    # How far a log goes: random numbers of SQLite's.
    "salts",
    # A keyed digest of what is admitted.
    "version",
    # Public keys.
    "public_key", "public_keys", "operator", "shuffler", "analyzer", "hops", "authority", "second_authority",
    "public", "identity", "old", "new", "witness",
    # Published numbers, packed.
    "_packed",
    # Names of tasks, digests, labels, and what is looked up by them.
    "task_id", "digest", "mixed_digest", "key_set_hash", "head", "person", "end",
    "tasks", "hash", "previous", "entries",
    "held_up", "awaited", "charges", "served", "failures", "tallies", "stuck",
    # What the analyzer computes results from: counts of a whole batch, and texts that a list or a certificate has.
    "counts", "after", "beginnings", "blocks",
    # What a transparency log shows to everybody.
    "root", "leaf", "key_id", "hashes", "log_proof",
    # Made up, not asked: the answers that `hubbub audit` has its own people give, and what is seen of them.
    "first", "second", "others", "seen",
}  # fmt: skip
"""Fields of these names hold nothing secret, in any class. A field that is not among them is hidden."""

SYMBOL = 987_654_321
SECRET = os.urandom(DEFAULT.private_key_bytes)
TO = Destination(bytes(32), 0, bytes(32))
SIGNED = SignedDocument(b"{}", bytes(64))
KEY = RoundKey(TO, SECRET, 48)


def _waiting() -> _Waiting:
    opened: asyncio.Future[list[bytes | None]] = asyncio.Future(loop=asyncio.new_event_loop())
    opened.set_result([SECRET])
    opened.get_loop().close()
    return _Waiting(KEY, 1, SECRET, opened)


HOLDERS: tuple[Any, ...] = (
    Access(frozenset({"localhost"}), "cookie", SECRET.hex(), SECRET.hex(), SECRET.hex()),
    FollowerPosition(SECRET, SECRET),
    Arrival(cast(Any, None), cast(Any, None), TO, 0.0, 0, 0, frozenset({SECRET})),
    Credential(SECRET, SECRET),
    CredentialId(0, 0, bytes(8), SECRET),
    Drawn(SECRET, SECRET),
    PreviewedQuery("carrier", SECRET.hex(), 2, None, None, 1.0, SECRET),
    DeviceReceipt(SECRET, 0),
    EnrolledDevices(SECRET, Ticket(SECRET, bytes(32), 0)),
    StoredEnrollment(SECRET, SECRET, Credential(SECRET, SECRET)),
    Encoded(SYMBOL, {"state": SYMBOL}),
    StoredSubmission(SECRET, SECRET, None, SECRET),
    Envelopes(BatchId(bytes(32), 0, 0), 0, (SECRET,)),
    Files(Path(), SECRET),
    OpeningJob(TO, SECRET, 0, 48),
    Mixing(SECRET, 1, 48, Files(Path(), SECRET), Files(Path(), SECRET), keys_at),
    MasterSecret(0, SECRET, KeyState.ACTIVE, 0),
    RoundContext(0, {"state": SYMBOL}),
    NewRoundKey(SECRET, SIGNED, 0),
    Opened(SECRET, bytes(16), SECRET),
    Outcome(TO, SECRET, Ending.ACKNOWLEDGED),
    SealedSubmission(TO, Submission(SECRET[:16], SECRET, SECRET, SECRET)),
    Pems(b"", b"", SECRET),
    Prefix(SECRET, ended=True),
    Receipt(SECRET, 0),
    Redemption(SECRET, SECRET),
    RoundKeys(SECRET, SECRET),
    TriedContext(SECRET, SECRET, "its label is missing"),
    RefusedTask("log_few", "", cast(Any, None), None, SECRET),
    _Handed(cast(Any, None), None, [SECRET], ()),
    TriedDevice(SECRET, submission=Submission(SECRET, SECRET)),
    KeyringRow("secret", (bytes(32), 0, SECRET)),
    KeyringChanges(SECRET, 0, (KeyringRow("secret", (bytes(32), 0, SECRET)),), SECRET),
    Revoked(frozenset({SECRET}), frozenset({SECRET})),
    RoundKeyMaterial(SECRET, KeySet(SIGNED, SIGNED), SECRET),
    RoundSecrets(SECRET, SECRET, SECRET),
    StorageSecrets(RoundCipher.of_secret(SECRET, bytes(32), 0), SECRET, SECRET),
    AnalyzerSecrets(DeliveryCipher(SECRET, bytes(32), 0), SECRET),
    RedeemedTicket(SECRET, SECRET, SECRET, 0),
    MemoryUpdate(SECRET.hex(), {"query": {"state": SYMBOL}}, 0.0),
    StoredKey(SECRET, SIGNED, None),
    Submission(SECRET, SECRET, SECRET, SECRET),
    InclusionProof(0, 2, SECRET),
    Ticket(SECRET, bytes(32), 0, ((bytes(32), SECRET),), SECRET, InclusionProof(0, 2, SECRET)),
    TreeHead(SECRET, 1, ((bytes(32), SECRET),)),
    KEY,
    Found({}, {"device": SECRET}, {"device": SECRET}, {}),
    Seen(StoredSubmission(SECRET, SECRET, None, SECRET), None, opted_out=False, refusal=None, memory=SECRET.hex()),
    Stored(RoundRef(bytes(32), 0), StoredSubmission(SECRET, SECRET, None, SECRET), None),
    BinaryRequest(SECRET, SECRET, SECRET, SECRET, ((SECRET, SECRET),), SECRET),
    BinaryResponse(200, ((SECRET, SECRET),), SECRET),
    ObliviousKey.derived(1, SECRET),
    _waiting(),
)
"""One of every kind of value that hides something, holding a secret there. A new one is a line."""

AROUND: tuple[Any, ...] = (
    Identity.generate(),
    Authority.generate(),
    InnerOpener(TO, SECRET, 0),
    OuterOpener(TO, SECRET, [48]),
    _PreparedSubmission("device", Submission(SECRET, SECRET), 1),
    _Piece([_waiting()]),
    {"a": [HOLDERS]},
)
"""Values that hold keys, or values of those kinds."""


def classes() -> Iterator[type]:
    """Every dataclass that people write."""
    # What Alembic runs can be imported by nobody else, and holds no classes.
    for path in (path for path in MODULES if "migrations" not in path.parts):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        module = importlib.import_module(f"hubbub.{name}")
        for found in vars(module).values():
            if isinstance(found, type) and dataclasses.is_dataclass(found) and found.__module__ == module.__name__:
                yield found


@functools.cache
def fields() -> list[tuple[type, dataclasses.Field[Any]]]:
    """Every field of theirs. Asked by tests alone: it imports all modules."""
    return [(each, field) for each in classes() for field in dataclasses.fields(cast(Any, each))]


def printed(value: object) -> bytes:
    """A value in every way in which texts are made of values, the traceback of an error about it among them."""
    texts = [repr(value), str(value), f"{value}", f"{value!r:.5000}", repr(SimpleNamespace(value=value))]
    try:
        raise ValueError(value)
    except ValueError as error:
        texts += traceback.format_exception(error)
    return "\n".join(texts).encode()


def private(value: object) -> list[bytes]:
    """The secrets in a value of `HOLDERS` or `AROUND`."""
    keys = {Identity: "key", Authority: "_key"}
    name = keys.get(type(value))
    own = [] if name is None else [number.to_bytes(32, "big") for number in _numbers(getattr(value, name))]
    return [SECRET, SECRET.hex().encode(), str(SYMBOL).encode(), *own]


def _numbers(key: Any) -> list[int]:
    if hasattr(key, "private_numbers"):
        return [key.private_numbers().private_value]
    return [int.from_bytes(key.private_bytes_raw(), "big")]


def test_what_may_hold_a_secret_is_hidden_or_known_to_be_public() -> None:
    assert len(fields()) > 800
    shown = [(each, field) for each, field in fields() if field.repr and HOLDING.search(str(field.type))]
    assert [f"{each.__qualname__}.{field.name}" for each, field in shown if field.name not in PUBLIC] == []
    assert {field.name for _, field in shown} == PUBLIC


def test_there_is_one_of_every_kind_that_hides_something() -> None:
    hiding = {each for each, field in fields() if not field.repr and HOLDING.search(str(field.type))}
    # Texts that a certificate names, kept aside to be found faster; and whole certificates, which are long.
    assert {each.__name__ for each in hiding} - {"Alphabet", "VerifiedCertificate", "_GivenFiles"} <= {
        type(each).__name__ for each in HOLDERS
    }


@pytest.mark.parametrize("value", [*HOLDERS, *AROUND], ids=lambda value: type(value).__name__)
def test_no_value_prints_the_secret_that_it_holds(value: object) -> None:
    assert found_in(printed(value), private(value)) == []


def test_the_search_itself_finds_a_field_that_is_not_hidden() -> None:
    @dataclasses.dataclass(frozen=True)
    class Open:
        key: bytes

    assert found_in(printed(Open(SECRET)), [SECRET]) == [SECRET]
    assert HOLDING.search(str(dataclasses.fields(Open)[0].type)) is not None
