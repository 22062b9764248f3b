"""What parses bytes from outside, each as a plain function of bytes.

A target returns whether the bytes were accepted. Bytes that are refused must be refused with the documented error;
whatever else comes out is a finding. Bytes that are accepted must be of the one form that is written: a target raises
`NotTheOneForm` where writing what was read gives other bytes, or another value.
"""

from __future__ import annotations

import atexit
import base64
import gzip
import importlib
import inspect
import json
import pkgutil
import re
import shutil
import tempfile
import typing
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite
from fuzz.calls import caller, requests
from fuzz.https_requests import requester
from google.protobuf.message import DecodeError, Message

import hubbub.protos
from hubbub.accountant.errors import AccountingError
from hubbub.accountant.mechanisms import KRR, RAPPOR, Generic
from hubbub.accountant.mechanisms.noise_law import TABLE_BITS, NoiseLaw
from hubbub.accountant.pairs import Part
from hubbub.accountant.spending.entry import LedgerBroken, LedgerEntry
from hubbub.analyzer import settings as analyzer_settings
from hubbub.cli.mechanisms.arguments import read_noise
from hubbub.cli.mechanisms.rounds_file import read_rounds
from hubbub.client import DeviceSettings, read_settings
from hubbub.client.errors import NoRound, StateError
from hubbub.client.privacy.report import budget_of
from hubbub.client.session.sealed_submission import Ending, Outcome, SealedSubmission
from hubbub.client.session.trust import trusted_task
from hubbub.client.state.rounds import DONE, Drawn, RoundRef
from hubbub.client.state.store import State
from hubbub.client.status import Memory, status_of
from hubbub.deploy.files import draft_in, signed_task_in
from hubbub.deploy.init.folders import sample
from hubbub.deploy.operator.lookup import read_candidates
from hubbub.deploy.settings import OperatorSettings
from hubbub.planning.simulate.dataset import SumSpec, from_file, from_table
from hubbub.planning.simulate.table_files import read_table
from hubbub.protos import cluster, codec
from hubbub.protos.enrollment import admitted
from hubbub.protos.enrollment.credentials import CREDENTIAL_BYTES, Credential
from hubbub.protos.enrollment.tickets import Ticket, new_tickets
from hubbub.protos.errors import (
    EnvelopeError,
    HubbubError,
    KeyRecordError,
    MessageError,
    SignatureError,
    TaskError,
)
from hubbub.protos.identity.documents import SignedDocument, canonical, parse_canonical, sign
from hubbub.protos.identity.formats import BATCH_RECORD, CERTIFICATE, HOP_RECORD, KEY_RECORD, Kind
from hubbub.protos.identity.formats import TASK as TASKS
from hubbub.protos.identity.keys import CORE_ROLES, Identity, KeyRecord, KeySet, Role, load_public, save_public
from hubbub.protos.identity.lineage import Lineage
from hubbub.protos.identity.successions import Succession, SuccessionError
from hubbub.protos.messages import (
    Committed,
    CredentialAction,
    CredentialStatus,
    Envelopes,
    Incident,
    IncidentReport,
    KeyState,
    ListedTask,
    MasterKey,
    Receipt,
    Redemption,
    RoundState,
    RoundStatus,
    Submission,
)
from hubbub.protos.oblivious.binary_http import (
    BinaryRequest,
    BinaryResponse,
    read_request,
    read_response,
    write_request,
    write_response,
)
from hubbub.protos.oblivious.encapsulation import KeyConfiguration, ObliviousKey, ObliviousKeys, seal_request
from hubbub.protos.oblivious.key_records import ObliviousRecord, read_oblivious_record, write_oblivious_records
from hubbub.protos.records.batch import BatchId, BatchRecord, HopRecord
from hubbub.protos.records.release_chain import Known, Release, ReleaseChunk, position_after
from hubbub.protos.records.results import (
    AnalysisStage,
    AnalyzerRoundStatus,
    QueryResult,
    QueryState,
    QueryStatus,
    RoundId,
    RoundResults,
)
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.rpc.leader import write_tickets, write_version
from hubbub.protos.rpc.releases import write_begin
from hubbub.protos.rpc.replication import write_replication_request
from hubbub.protos.sealing.envelope import Destination, InnerOpener, OuterOpener, Sealer
from hubbub.protos.sealing.suites import DEFAULT
from hubbub.protos.task.feed.entry import FeedEntry, FeedError, FeedParties
from hubbub.protos.task.feed.feed import Feed
from hubbub.protos.task.signed_task import read_task
from hubbub.protos.task.task import Task, task_content
from hubbub.protos.v1 import (
    control_pb2,
    delivery_pb2,
    incidents_pb2,
    leader_pb2,
    results_pb2,
    submission_pb2,
    tasks_pb2,
)
from hubbub.queries.estimation.estimates import Estimate, Estimates, Row
from hubbub.queries.query import Query
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.questions.number import Number
from hubbub.queries.questions.question import Question
from hubbub.queries.randomizers.hashed import HashedResponse
from hubbub.queries.randomizers.hashed_cells import Cells
from hubbub.queries.randomizers.unary import UnaryEncoding
from hubbub.queries.texts.lookup import packed, unpacked
from hubbub.queries.texts.text import Text
from hubbub.service.receiving.record_checks import check_record
from hubbub.service.settings import SettingsError, SettingsTable
from hubbub.service.settings import load as load_settings
from hubbub.shuffler import settings as shuffler_settings
from hubbub.verification.certificate import Pins, VerificationError, verify
from support.certificates import content_of, counts, encode
from support.charges import BILL
from support.krr_queries import INNER_BYTES, krr_query, report, unary_query
from support.mutation import Mutator, of_bytes, of_json, of_text
from support.samples import HALF, Parties, sample_task, signed

STATES = Path(__file__).parents[1] / "vectors" / "stores"


class NotTheOneForm(Exception):
    """Bytes were accepted, and what was read is written otherwise."""


@dataclass(frozen=True)
class Target:
    """A parser: what it makes of bytes, bytes it accepts to begin from, how these are mutated, and its errors."""

    name: str
    accept: Callable[[bytes], None]
    seeds: tuple[bytes, ...]
    errors: tuple[type[Exception], ...]
    mutate: Mutator = of_bytes
    costly: bool = False

    def run(self, data: bytes) -> bool:
        """Return whether the bytes are accepted; whatever is raised is a finding."""
        try:
            self.accept(data)
        except self.errors as error:
            _check_message(error)
            return False
        return True


LONGEST_ERROR = 4000
"""Characters of an error's message, at most: it goes to terminals and logs."""


def _check_message(error: Exception) -> None:
    message = str(error)
    if not message or len(message) > LONGEST_ERROR:
        raise NotTheOneForm(f"an error of {len(message)} characters") from error
    message.encode()  # a lone surrogate could not be printed


def same(written: Any, read: Any) -> None:
    """Return only if both are the same.

    Raises:
        NotTheOneForm: otherwise.
    """
    if written != read:
        raise NotTheOneForm(f"{written!r:.200} is not {read!r:.200}")


# Parties and samples, the same in every run


def _identity(number: int) -> Identity:
    return Identity(Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32))


PARTIES = Parties(_identity(1), _identity(2), _identity(3))
TASK = sample_task(PARTIES)
UNARY = tuple(
    unary_query(query.question, 3 * HALF // 2, HALF // 2, levels=7)
    for query in TASK.queries
    if isinstance(query.question, Histogram | Number)
)
UNARY_TASK = replace(TASK, queries=UNARY)
HASHED = Query(Text("word", optional=True), HashedResponse(2**64, 16, 8, HALF))
LAWS = (NoiseLaw.of("geometric", Fraction(3, 5), 6), NoiseLaw.of("gaussian", Fraction(9), 12))
NOISY_TASK = replace(
    TASK,
    queries=tuple(
        replace(krr_query(Histogram(name, answers), HALF), noise=law)
        for name, answers, law in (("carrier", ("AA", "B6", "UA"), LAWS[0]), ("late", ("no", "yes"), LAWS[1]))
    ),
)
DESTINATION = Destination(TASK.id, 1, bytes(range(32)))
KEY = bytes(range(1, 33))
PUBLIC = X25519PrivateKey.from_private_bytes(KEY).public_key()
ID = bytes(range(16))
OBLIVIOUS = ObliviousKey.derived(1, KEY)
OBLIVIOUS_KEYS = ObliviousKeys([OBLIVIOUS])
OBLIVIOUS_SEALED, OBLIVIOUS_OPENER = seal_request(OBLIVIOUS.configuration, b"a")
OBLIVIOUS_ANSWER = OBLIVIOUS_KEYS.open(OBLIVIOUS_SEALED)[1].seal(b"an answer")
OPEN_ENDED = bytes.fromhex("0203474554056874747073000a2f68656c6c6f2e74787400026869000000")
"""A binary request of unknown lengths."""
OBLIVIOUS_NOW = 1_800_000_000
OBLIVIOUS_RECORD = ObliviousRecord.at(OBLIVIOUS.configuration, OBLIVIOUS_NOW).signed_by(PARTIES.shuffler)
OBLIVIOUS_ANSWERS = (write_oblivious_records([OBLIVIOUS_RECORD], [b"{}"]),)
BINARY = BinaryRequest(b"POST", b"https", b"localhost:7308", b"/a", ((b"content-type", b"application/proto"),), b"a")
TICKETS = new_tickets(3, PARTIES.shuffler.public, 1_800_000_000, [PARTIES.operator, PARTIES.analyzer])
SEALED = SealedSubmission(DESTINATION, Submission(ID, b"sealed", b"credential", b"proof"))
OUTCOMES = (
    Outcome(DESTINATION, ID, Ending.ACKNOWLEDGED),
    Outcome(DESTINATION, ID, Ending.REFUSED, Reason.TOO_LATE, "too late"),
)
_PUBLISHED = Feed().publishing(signed(TASK, PARTIES)).signed_by(PARTIES.operator).signed_by(PARTIES.shuffler)
FEED_ENTRIES = (_PUBLISHED.encode(), Feed((_PUBLISHED,)).ending(TASK.id, 1).signed_by(PARTIES.operator).encode())
SUCCESSION = (
    Succession(Role.SHUFFLER, PARTIES.shuffler.public, _identity(4).public, PARTIES.operator.public, 1_800_000_000)
    .signed_by(PARTIES.shuffler)
    .signed_by(PARTIES.operator)
)
SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)
RECORD = KeyRecord(Role.SHUFFLER, TASK.id, 1, TASK.suite, PUBLIC.public_bytes_raw(), 1_767_225_600, 1_767_232_800)
BATCH = BatchRecord(
    *(BatchId(TASK.id, 1, 0), 20, bytes(32), bytes(32), "schedule", {"too_late": 2}, 3),
    admission="enrolled",
    position=position_after(TASK.id, (Release(0, 20, 3, (bytes(32),)),)),
)
NOISY_BATCHES = tuple(
    replace(BATCH, batch=BatchId(NOISY_TASK.id, 1, query), dummies=dummies, admission=NOISY_TASK.admission.mode.value)
    for query, dummies in ((0, 20), (0, 0), (1, 24))
)
HOP = HopRecord(2, BATCH.signed_by(PARTIES.shuffler), 23, {"unopenable": 1}, bytes(32), 5)

RELEASES = ReleaseChunk(
    1, (Release(0, 20, 3, (bytes(32),)), Release.signed(1, 20, 3, [BATCH.signed_by(PARTIES.shuffler)]))
)

# Messages


@cache
def _documents() -> dict[str, Any]:
    """A value of every kind that `codec` writes."""
    document = RECORD.signed_by(PARTIES.shuffler)
    estimate = Estimate(1.5, 0.25, 1.0, 2.0)
    counts = (Row("count", estimate, "AA", 1.0), Row("count", estimate, "B6", 0.0), Row("answered", estimate))
    histogram = Estimates("histogram", counts)
    numbers = (Row("answered", estimate), Row("sum", estimate, unit="minutes"), Row("mean", None, unit="minutes"))
    total = Estimates("sum", numbers, "minutes", (-30.0, 180.0))
    round_id = RoundId(TASK.id, "flights", 1)
    queries = (
        QueryResult("carrier", QueryState.PUBLISHED, 20, 19, {"unopenable": 1}, histogram),
        QueryResult("delay", QueryState.PUBLISHED, 20, 20, {}, total),
        QueryResult("other", QueryState.WITHHELD, 20, 1, {}, None),
    )
    return {
        "document": document,
        "key_record": document,
        "batch_record": BATCH.signed_by(PARTIES.shuffler),
        "key_set": KeySet(document, document),
        "destination": DESTINATION,
        "submission": Submission(ID, bytes(200)),
        "receipt": Receipt(ID, 7),
        "answer": Refusal(Reason.OVERLOADED, "come back", 1.5),
        "answers": [Receipt(ID, 7), Refusal(Reason.TOO_LATE, "round 2 is next")],
        "status": RoundStatus(TASK.id, 1, RoundState.OPEN, 20, 20, {"too_late": 2}, "the end of the round"),
        "batch_id": BatchId(TASK.id, 1, 2),
        "envelopes": Envelopes(BatchId(TASK.id, 1, 2), 5, (bytes(INNER_BYTES), bytes(INNER_BYTES))),
        "committed": Committed(20, {"unopenable": 1}),
        "begin": (BATCH.signed_by(PARTIES.shuffler), KeySet(document, document), RELEASES),
        "known": Known(2, bytes(32), (1,)),
        "round_id": round_id,
        "results": RoundResults(round_id, queries, b"{}"),
        "round_status": AnalyzerRoundStatus(
            round_id,
            AnalysisStage.DELIVERING,
            (QueryStatus("carrier", 20, 23, 5, None, {}), QueryStatus("delay", 20, 23, 23, 22, {"unopenable": 1})),
            "5 of 23 envelopes of carrier",
        ),
        "redemptions": [Redemption(TICKETS[0].encode(), bytes(32))],
        "enrolled": [Credential(bytes(CREDENTIAL_BYTES), KEY), Refusal(Reason.TICKET_REDEEMED, "by another device")],
        "credential_action": (CredentialAction.REVOKE, [ID]),
        "credential_status": CredentialStatus(
            (MasterKey(2, KeyState.ACTIVE, 1_700_000_000, "0123456789abcdef"),), 20, 1
        ),
        "secrets": admitted.RoundSecrets(bytes(128), bytes(32), bytes(32)),
        "version": ID,
        "admitted": admitted.Admitted(
            ID,
            (admitted.MasterSecret(1, KEY, KeyState.ACTIVE, 1_700_000_000),),
            admitted.Revoked(frozenset({bytes(16)}), frozenset({bytes(16)})),
            b"records",
        ),
        "tickets": [admitted.RedeemedTicket(bytes(16), KEY, ID, 1_800_000_000)],
        "redeemed": [admitted.RedeemedTicket(bytes(16), KEY, ID, 1_800_000_000)],
        "replication_request": cluster.FollowerPosition(ID, bytes(16), 5),
        "replication_reply": cluster.KeyringChanges(
            bytes(16),
            6,
            (cluster.KeyringRow("master", (1, bytes(32), "active", None)), cluster.KeyringRow("master", (2,))),
            ID,
            2,
        ),
        "tasks": [ListedTask(TASK.id, TASK.name)],
        "task": signed(TASK, PARTIES),
        "incidents": IncidentReport((Incident("store", "the disk is full", 1_700_000_000.5, 3),), 12),
    }


@cache
def readers() -> dict[str, tuple[type[Message], Callable[[Any], Any], Callable[[Any], Any]]]:
    """Every pair of functions of `protos` that reads and writes a message, with the message's type."""
    found: dict[str, tuple[type[Message], Callable[[Any], Any], Callable[[Any], Any]]] = {}
    for info in pkgutil.walk_packages(hubbub.protos.__path__, "hubbub.protos."):
        if info.name.endswith(("_pb2", "_pb2_grpc")):
            continue
        module = importlib.import_module(info.name)
        for name, read in inspect.getmembers(module, inspect.isfunction):
            kinds = list(typing.get_type_hints(read).values()) if name.startswith("read_") else []
            if read.__module__ == info.name and kinds and isinstance(kinds[0], type) and issubclass(kinds[0], Message):
                short = name.removeprefix("read_")
                found[short] = (kinds[0], read, getattr(module, f"write_{short}"))
    return found


def _message_target(name: str) -> Target:
    kind, read, write = readers()[name]

    def accept(data: bytes) -> None:
        try:
            message = kind.FromString(data)
        except DecodeError:  # gRPC answers it, before any of our code
            raise MessageError("no message") from None
        written = write(read(message)).SerializeToString(deterministic=True)
        again = write(read(kind.FromString(written))).SerializeToString(deterministic=True)
        same(again, written)

    seed = write(_documents()[name]).SerializeToString(deterministic=True)
    return Target(f"message {name}", accept, (seed,), (MessageError,))


# Calls


@cache
def _requests() -> dict[str, Message]:
    """A request of every call, as a peer makes it."""
    submission = submission_pb2
    to = codec.write_destination(DESTINATION)
    sent = codec.write_submission(Submission(ID, bytes(200)))
    batch = codec.write_batch_id(BATCH.batch)
    return {
        "GetRound": submission.GetRoundRequest(task_id=TASK.id, round=1),
        "Submit": submission.SubmitRequest(destination=to, submission=sent),
        "SubmitBatch": submission.SubmitBatchRequest(destination=to, submissions=[sent, sent]),
        "CloseRound": control_pb2.CloseRoundRequest(task_id=TASK.id, round=1),
        "GetStatus": control_pb2.GetStatusRequest(task_id=TASK.id),
        "GetKey": delivery_pb2.GetKeyRequest(task_id=TASK.id, round=1),
        "GetReleases": delivery_pb2.GetReleasesRequest(task_id=TASK.id),
        "BeginDelivery": write_begin(_documents()["begin"]),
        "PutEnvelopes": codec.write_envelopes(_documents()["envelopes"]),
        "CommitDelivery": delivery_pb2.CommitDeliveryRequest(batch=batch, digest=bytes(32)),
        "GetResults": results_pb2.GetResultsRequest(task_id=TASK.id, round=1, wait_seconds=1.5),
        "ListResults": results_pb2.ListResultsRequest(task_id=TASK.id),
        "GetStatuses": results_pb2.GetStatusesRequest(task_id=TASK.id),
        "GetIncidents": incidents_pb2.GetIncidentsRequest(),
        "ListTasks": tasks_pb2.ListTasksRequest(),
        "GetTask": tasks_pb2.GetTaskRequest(task_id=TASK.id),
        "GetFeed": submission.GetFeedRequest(first=2),
        "Enroll": submission.EnrollRequest(
            redemptions=[
                submission.Redemption(ticket=TICKETS[each].encode(), device_key=bytes([each]) * 32) for each in (0, 1)
            ]
        ),
        "Follow": write_replication_request(_documents()["replication_request"]),
        "GetSecrets": leader_pb2.GetSecretsRequest(task_id=TASK.id, round=1),
        "GetAdmitted": write_version(_documents()["version"]),
        "RedeemTickets": write_tickets(_documents()["tickets"]),
        "ManageCredentials": control_pb2.ManageCredentialsRequest(step="revoke", devices=[ID]),
    }


def _call_target(name: str) -> Target:
    seed = _requests()[name].SerializeToString(deterministic=True)
    return Target(f"call {name}", caller(_documents(), name), (seed,), (MessageError,))


def _http_target() -> Target:
    """Requests at the HTTPS port."""
    samples, line = (
        _documents(),
        "POST /hubbub.v1.SubmissionService/{} HTTP/1.1\r\nHost: x\r\n{}Content-Length: {}\r\n\r\n",
    )
    typed = "Content-Type: application/proto\r\nConnect-Timeout-Ms: 5000\r\n"
    destination = codec.write_destination(DESTINATION)
    one, some = codec.write_submission(samples["submission"]), [codec.write_submission(samples["submission"])] * 3
    bodies = {
        "Submit": submission_pb2.SubmitRequest(destination=destination, submission=one).SerializeToString(),
        "SubmitBatch": submission_pb2.SubmitBatchRequest(destination=destination, submissions=some).SerializeToString(),
        "GetRound": submission_pb2.GetRoundRequest(task_id=TASK.id, round=1).SerializeToString(),
    }
    seeds = [line.format(name, typed, len(body)).encode() + body for name, body in bodies.items()]
    length = f"Content-Length: {len(bodies['Submit'])}"
    chunked = seeds[0].replace(length.encode(), b"Transfer-Encoding: chunked").partition(b"\r\n\r\n")[0]
    chunks = b"\r\n\r\n40\r\n%b\r\n%x;a=b\r\n%b\r\n0\r\n\r\n"
    first, rest = bodies["Submit"][:64], bodies["Submit"][64:]
    asked = b'{"taskId": "%b", "round": 1}' % base64.b64encode(TASK.id)
    in_json = line.format("GetRound", typed.replace("proto", "json"), len(asked)).encode() + asked
    more = chunked + chunks % (first, len(rest), rest), in_json
    return Target("HTTP request", requester(samples), (*seeds, seeds[2] * 2, *more), (MessageError,))


# Envelopes


def _sealed(plain: bytes, label: bytes, rest: bytes) -> bytes:
    info = label + DESTINATION.task_id + DESTINATION.round.to_bytes(4, "big") + DESTINATION.key_set_hash + rest
    return SUITE.encrypt(plain, PUBLIC, info=info)


INNERS = [INNER_BYTES, INNER_BYTES + 7]
"""Lengths of the inner envelopes of a task with two queries, which differ in their randomizers."""


def read_ticket(data: bytes) -> None:
    same(Ticket.decode(data).encode(), data)


def read_sealed_submission(data: bytes) -> None:
    same(SealedSubmission.decode(data).encode(), data)


def read_outcome(data: bytes) -> None:
    same(Outcome.decode(data).encode(), data)


def read_succession(data: bytes) -> None:
    found = Succession.decode(data)
    same(found.encode(), data)
    try:
        Lineage.of({role: PARTIES.of(role).public for role in CORE_ROLES}, [found])
    except SuccessionError as error:
        _check_message(error)
    else:
        raise NotTheOneForm("the new identity has not signed")


def read_feed_entry(data: bytes) -> None:
    found = FeedEntry.decode(data)
    same(found.encode(), data)
    try:
        Feed().check_next(found)
        found.check(FeedParties(PARTIES.operator.public, PARTIES.shuffler.public))
    except FeedError as error:
        _check_message(error)


def read_binary_request(data: bytes) -> None:
    request = read_request(data)
    same(read_request(write_request(request)), request)


def read_binary_response(data: bytes) -> None:
    response = read_response(data)
    same(read_response(write_response(response)), response)


def open_encapsulated(data: bytes) -> None:
    OBLIVIOUS_KEYS.open(data)


def open_encapsulated_answer(data: bytes) -> None:
    OBLIVIOUS_OPENER.open(data)


def read_key_configuration(data: bytes) -> None:
    KeyConfiguration.decode(data)


def read_oblivious_keys(data: bytes) -> None:
    read_oblivious_record(data, lambda _successions: PARTIES.shuffler.public, OBLIVIOUS_NOW)


def open_outer(data: bytes) -> None:
    inners = OuterOpener(DESTINATION, KEY, INNERS).open(data, ID)
    same([len(inner) for inner in inners], INNERS)


def open_what_a_device_sealed(data: bytes) -> None:
    """A device may seal anything: the content of the outer layer is fuzzed."""
    inners = OuterOpener(DESTINATION, KEY, INNERS).open(_sealed(data, b"hubbub/v1 shuffler", ID), ID)
    same(b"".join(inners), data)


def open_inner(data: bytes) -> None:
    same(len(InnerOpener(DESTINATION, KEY, 1).open(data)), len(data) - DEFAULT.overhead_bytes)


def open_what_a_device_answered(data: bytes) -> None:
    """The content of the inner layer is fuzzed."""
    query = (1).to_bytes(4, "big")
    same(InnerOpener(DESTINATION, KEY, 1).open(_sealed(data, b"hubbub/v1 analyzer", query)), data)


def _count_target(name: str, query: Query) -> Target:
    """Reports that were opened, whatever a device put into them: each is counted once, as valid or not."""

    def accept(data: bytes) -> None:
        reports, randomizer = len(data) // query.report_bytes, query.randomizer
        tally = randomizer.tally(data[: reports * query.report_bytes])
        same(tally.valid + tally.invalid, reports)
        randomizer.check(tally)
        if randomizer.kind == "hashed":
            query.estimates(tally, 0)
            return
        same(tally.counts.shape, (randomizer.symbols,))
        same(bool((tally.counts >= 0).all() and (tally.counts <= tally.valid).all()), True)
        same(int(tally.counts.sum()) <= tally.valid * most, True)
        if tally.valid:
            query.estimates(tally, 0)

    most = 1 if query.randomizer.kind == "krr" else query.symbols
    seeds = (query.randomize(0, bytes), query.randomizer.dummies(50, Random(1).randbytes))
    return Target(f"reports {name}", accept, seeds, ())


def read_table_of_cells(data: bytes) -> None:
    """A table that comes from an analyzer: five cells, or an error, whatever it says it holds."""
    same(unpacked(packed(tally := unpacked(data, 5)), 5).counts.tolist(), tally.counts.tolist())


def read_candidates_file(data: bytes) -> None:
    with in_file(data, "candidates.txt") as path:
        same(all(read_candidates(path)), True)


@cache
def _envelopes() -> tuple[bytes, bytes, bytes]:
    sealer = Sealer(DESTINATION, PUBLIC.public_bytes_raw(), PUBLIC.public_bytes_raw())
    inner, wider = sealer.inner(report(3), 1), sealer.inner(bytes(11), 1)
    return sealer.outer([inner, wider], ID), inner, wider


# Signed documents


def read_json(data: bytes) -> None:
    same(canonical(parse_canonical(data)), data)


def read_document(data: bytes) -> None:
    value = parse_canonical(data)
    same(SignedDocument.from_json(value).as_json(), value)


def _signed(kind: Kind, data: bytes, identity: Identity) -> SignedDocument:
    return SignedDocument(data, sign(kind.format, data, identity.key))


def read_key_record(data: bytes) -> None:
    record = KeyRecord.read(_signed(KEY_RECORD, data, PARTIES.shuffler), PARTIES.shuffler.public)
    same(record.signed_by(PARTIES.shuffler).body, data)


def read_batch_record(data: bytes) -> None:
    record = BatchRecord.read(_signed(BATCH_RECORD, data, PARTIES.shuffler), PARTIES.shuffler.public)
    same(record.signed_by(PARTIES.shuffler).body, data)


def read_sum_of_noise(data: bytes) -> None:
    """What an analyzer makes of a record of a task with noise: its sum is one that the law can add up to."""
    record = BatchRecord.read(_signed(BATCH_RECORD, data, PARTIES.shuffler), PARTIES.shuffler.public)
    check_record(NOISY_TASK, record)
    symbols, law = ((3, LAWS[0]), (1, LAWS[1]))[record.batch.query]
    same(0 <= record.dummies <= symbols * law.largest, True)
    same(symbols > 1 or record.dummies == law.largest, True)


def read_hop_record(data: bytes) -> None:
    record = HopRecord.read(_signed(HOP_RECORD, data, PARTIES.shuffler), PARTIES.shuffler.public)
    same(record.signed_by(PARTIES.shuffler).body, data)


# Tasks


def read_task_file(data: bytes) -> None:
    with in_file(data, "task.json") as path:
        same(signed_task_in(path).encode(), data)


def trust_task(data: bytes) -> None:
    """What a device makes of a task that both parties it trusts signed, whatever stands in it."""
    content = parse_canonical(data)
    signatures = {
        role.value: sign(TASKS.format, data, identity.key).hex()
        for role, identity in ((Role.OPERATOR, PARTIES.operator), (Role.SHUFFLER, PARTIES.shuffler))
    }
    document = canonical({"signatures": signatures, "task": content})
    same(trusted_task(document, PARTIES.operator.public, PARTIES.shuffler.public).canonical, data)


def _planned(question: Question) -> Query:
    """The question with some randomizer of the kind that it names."""
    if not isinstance(question, Histogram | Number):
        raise TypeError(f"{question!r:.200} is a question of a kind that is not fuzzed")
    levels = 7 if isinstance(question, Number) else None
    if question.randomizer != UnaryEncoding.kind:
        return krr_query(question, HALF, levels)
    query = unary_query(question, HALF, 1, levels)
    UnaryEncoding.families(query.symbols)  # planning refuses too many symbols
    return query


def read_draft(data: bytes) -> None:
    """A draft that is accepted becomes a task that is read again as it was written."""
    with in_file(data, "task.toml") as path:
        draft = draft_in(path)
    queries = tuple(_planned(question) for question in draft.questions)
    task = Task(
        draft.name,
        draft.schedule,
        draft.minimum_reports,
        draft.privacy,
        queries,
        PARTIES.public,
        admission=draft.admission,
        maximum_reports=draft.most_reports,
    )
    content = parse_canonical(task.canonical)
    same(read_task(content), task)
    same(task_content(task), content)


# Certificates


def read_certificate(data: bytes) -> None:
    verify(data, Pins())


def read_signed_certificate(data: bytes) -> None:
    """A certificate whose maker holds all three keys: nothing is refused for its signatures."""
    try:
        again = _signed_again(parse_canonical(data))
        body = canonical(again)
    except SignatureError as error:
        raise VerificationError(str(error)) from error
    signature = sign(CERTIFICATE.format, body, PARTIES.analyzer.key).hex()
    verify(canonical({"body": again, "signature": signature}), Pins())


def _signed_again(content: Any) -> Any:
    """Put valid signatures on everything in a certificate that has the form of something signed."""
    if not isinstance(content, dict):
        return {"body": content}
    fields = dict(content)
    task = fields.get("task")
    if isinstance(task, dict) and "task" in task:
        body = canonical(task["task"])
        pairs = (("operator", PARTIES.operator), ("shuffler", PARTIES.shuffler))
        signatures = {role: sign(TASKS.format, body, identity.key).hex() for role, identity in pairs}
        fields["task"] = {**task, "signatures": signatures}
    if isinstance(fields.get("batches"), list):
        fields["batches"] = [_record_again(record) for record in fields["batches"]]
    return fields


def _record_again(record: Any) -> Any:
    if not isinstance(record, dict) or "body" not in record:
        return record
    signature = sign(BATCH_RECORD.format, canonical(record["body"]), PARTIES.shuffler.key)
    return {**record, "signature": signature.hex()}


def _certificates() -> list[dict[str, Any]]:
    """One of a first round, and one of a round after another."""
    task = replace(TASK, queries=(krr_query(Histogram("carrier", ("AA", "B6", "UA")), HALF),))
    rounds = [counts(task, 0, 25), counts(task, 1, 30, left_out=2)]
    return [content_of(task, PARTIES, rounds[:1]), content_of(task, PARTIES, rounds)]


# Keys, settings, data


def read_public_key(data: bytes) -> None:
    with in_file(data, "key.pub.pem") as path:
        identity = load_public(path)
        save_public(path, identity)
        same(load_public(path), identity)


def read_private_key(data: bytes) -> None:
    with in_file(data, "identity.pem") as path:
        same(len(Identity.load(path).public), 32)


def _settings_target(name: str, kind: type[SettingsTable]) -> Target:
    def accept(data: bytes) -> None:
        with in_file(data, f"{name}.toml") as path:
            same(isinstance(load_settings(path, kind, name), kind), True)

    return Target(f"settings {name}", accept, (sample(f"{name}.toml").encode(),), (SettingsError,), of_text)


def read_client_settings(data: bytes) -> None:
    with in_file(data, "client.toml") as path:
        same(isinstance(read_settings(path, {}), DeviceSettings), True)


def read_csv(data: bytes) -> None:
    """A file as `demo --data` and `simulate --data` take it."""
    with in_file(data, "data.csv") as path:
        dataset = from_file(path, ["carrier"], [SumSpec("delay", -30.0, 180.0)])
        same(dataset.answers.num_rows, dataset.devices)
        from_table(
            read_table(path, ["carrier", "delay"]),
            str(path),
            "fuzzed",
            _draft().questions,
            {"theme": "carrier", "session": "delay"},
        )


def read_parquet(data: bytes) -> None:
    with in_file(data, "data.parquet") as path:
        from_file(path, ["carrier"], [SumSpec("delay", -30.0, 180.0)])


@cache
def _draft() -> Any:
    with in_file(sample("task.toml").replace("@START@", "2026-01-01T00:00:00Z").encode(), "task.toml") as path:
        return draft_in(path)


def read_rounds_file(data: bytes) -> None:
    with in_file(data, "rounds.json") as path:
        same(all(part.rounds >= 1 for part in read_rounds(path)), True)


def read_law_of_noise(data: bytes) -> None:
    law = NoiseLaw.read(parse_canonical(data))
    same(canonical(law.content()), data)
    same(sum(law.weights), 2**TABLE_BITS)


def read_text_of_noise(data: bytes) -> None:
    """What stands behind `--noise`: the law as it is written exactly is the law that was read."""
    law = read_noise(data.decode(errors="replace"), "--noise")
    same(read_noise(f"{law.family}:{law.parameter}/{2**32}:{law.reach}", "--noise"), law)


def read_ledger_entry(data: bytes) -> None:
    text = data.decode(errors="replace")
    same(LedgerEntry.from_canonical(text).canonical(), text)


def open_state_file(data: bytes) -> None:
    """A device's state file, damaged as disks do it: read as a device reads it, and written to."""
    with in_file(data, "state.db") as path:
        state = State(path)
        try:
            _use_state(state, TASK.id)
        finally:
            state.close()
            for name in ("state.db-wal", "state.db-shm"):
                path.with_name(name).unlink(missing_ok=True)


def of_used_bytes(data: bytes, draw: Random) -> bytes:
    """Change some of the bytes that are not 0: most of a small database is empty, and nobody reads it."""
    changed = bytearray(data)
    used = [place for place, byte in enumerate(data) if byte]
    for _ in range(draw.randrange(1, 6)):
        changed[draw.choice(used)] = draw.randrange(256)
    return bytes(changed)


def _use_state(state: State, task_id: bytes) -> None:
    known = [bytes.fromhex(json.loads(path.read_text())["task"]) for path in STATES.glob("state-*.json")]
    for each in (*known, task_id):
        memory = Memory(
            state.entries(each, "kiosk"),
            state.history(each, "kiosk"),
            state.last_forgotten(each),
            bool(state.opted_out(["kiosk"])),
        )
        status_of(TASK, memory, float(TASK.schedule.start))
        for number in state.waiting(each, "kiosk"):
            state.key_set(RoundRef(each, number))
        state.keep_reports(RoundRef(each, 9), "kiosk", Drawn(bytes(16), bytes(8)), 5000.0, BILL)
        budget_of(state.accounts("kiosk"), each, 0, BILL.limits)
        state.settle(RoundRef(each, 9), {"kiosk": DONE})
    state.wipe("kiosk")
    state.forget(1e12)


@cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="hubbub-fuzz-"))
    atexit.register(shutil.rmtree, folder)
    return folder


class in_file:  # noqa: N801 - used as a function
    """A file that holds the bytes, for what reads files."""

    def __init__(self, data: bytes, name: str) -> None:
        self._path = _folder() / name
        self._path.write_bytes(data)

    def __enter__(self) -> Path:
        return self._path

    def __exit__(self, *_: object) -> None:
        self._path.unlink()


def _parquet() -> bytes:
    import pyarrow as pa
    from pyarrow import parquet

    sink = pa.BufferOutputStream()
    table = pa.table({"carrier": ["AA", "B6", None], "delay": [1.5, None, 3.0]})
    parquet.write_table(table, sink, compression="none")
    return bytes(sink.getvalue())


def _public_pem() -> bytes:
    with in_file(b"", "key.pub.pem") as path:
        save_public(path, PARTIES.operator.public)
        return path.read_bytes()


def _private_pem() -> bytes:
    path = _folder() / "made.pem"
    PARTIES.operator.save(path)
    try:
        return path.read_bytes()
    finally:
        path.unlink()


def _targets() -> list[Target]:
    outer, inner, wider = _envelopes()
    draft = sample("task.toml").replace("@START@", "2026-01-01T00:00:00Z")
    named = re.sub(r"(?m)^randomizer = .*\n", "", draft)
    unary = re.sub(r"(?m)^kind = ", 'randomizer = "unary"\nkind = ', named)
    drafts = (draft.encode(), unary.encode())
    certificates = _certificates()
    bodies = tuple(canonical(each) for each in certificates)
    files = tuple(encode(each, PARTIES) for each in certificates)
    part = Part(KRR.from_numerator(3, HALF), 20)
    entries = (
        LedgerEntry("usage", 0, "theme", part).canonical().encode(),
        LedgerEntry("usage", 1, "theme", Part(Generic(0.5), 20)).canonical().encode(),
        LedgerEntry("usage", 2, "theme", Part(RAPPOR.from_numerators(3, HALF, HALF // 2), 20)).canonical().encode(),
    )
    rounds = (
        b'[{"mechanism":"krr","categories":16,"local_epsilon":4,"reports":10000,"rounds":12}]',
        b'[{"mechanism":"krr","categories":2,"gamma":"2147483648/4294967296","reports":7,"dummies":3}]',
        b'[{"mechanism":"generic","local_epsilon":0.5,"reports":50000}]',
    )
    values = (b"{}", b"[]", b'{"a":[1.5,null,true,"x"]}')
    signatures, messages = (SignatureError,), (MessageError,)
    tasks = (SignatureError, TaskError)
    return [
        *(_message_target(name) for name in readers() if name in _documents()),
        *(_call_target(name) for name in requests() if name in _requests()),
        Target("outer envelope", open_outer, (outer,), (EnvelopeError,)),
        Target("outer content", open_what_a_device_sealed, (inner + wider,), (EnvelopeError,)),
        Target("inner envelope", open_inner, (inner, wider), (EnvelopeError,)),
        Target("inner content", open_what_a_device_answered, (bytes(4), bytes(11)), (EnvelopeError,)),
        _count_target("krr", TASK.queries[0]),
        _count_target("unary", UNARY[1]),
        _count_target("hashed", HASHED),
        _http_target(),
        Target(
            "binary request",
            read_binary_request,
            (write_request(BINARY), OPEN_ENDED),
            messages,
        ),
        Target(
            "binary response",
            read_binary_response,
            (write_response(BinaryResponse(200, BINARY.fields, b"a")),),
            messages,
        ),
        Target("encapsulated request", open_encapsulated, (OBLIVIOUS_SEALED,), messages),
        Target("encapsulated answer", open_encapsulated_answer, (OBLIVIOUS_ANSWER,), messages),
        Target("key configuration", read_key_configuration, (OBLIVIOUS.configuration.encode(),), messages),
        Target("oblivious keys", read_oblivious_keys, OBLIVIOUS_ANSWERS, (*signatures, KeyRecordError), of_json),
        Target("table of cells", read_table_of_cells, (packed(Cells(np.arange(5), 5)),), (ValueError,)),
        Target("candidates", read_candidates_file, ("straße\r\nchrome\n\n".encode(),), (HubbubError,)),
        Target("canonical JSON", read_json, (*values, b'{"a":[4,1e+21]}', bodies[0]), signatures, of_json),
        Target("signed document", read_document, files[:1], signatures, of_json),
        Target(
            "key record",
            read_key_record,
            (RECORD.signed_by(PARTIES.shuffler).body,),
            (SignatureError, KeyRecordError),
            of_json,
        ),
        Target("batch record", read_batch_record, (BATCH.signed_by(PARTIES.shuffler).body,), signatures, of_json),
        Target("hop record", read_hop_record, (HOP.signed_by(PARTIES.shuffler).body,), signatures, of_json),
        Target(
            "task file",
            read_task_file,
            tuple(signed(task, PARTIES).encode() for task in (TASK, UNARY_TASK, NOISY_TASK)),
            tasks,
            of_json,
        ),
        Target("sealed submission", read_sealed_submission, (SEALED.encode(),), (MessageError,), of_json),
        Target("outcome", read_outcome, tuple(one.encode() for one in OUTCOMES), (MessageError,), of_json),
        Target("ticket", read_ticket, tuple(ticket.encode() for ticket in TICKETS), signatures, of_json),
        Target("succession", read_succession, (SUCCESSION.encode(),), signatures, of_json),
        Target("feed entry", read_feed_entry, FEED_ENTRIES, (FeedError,), of_json),
        Target(
            "trusted task", trust_task, (TASK.canonical, UNARY_TASK.canonical, NOISY_TASK.canonical), tasks, of_json
        ),
        Target(
            "law of noise",
            read_law_of_noise,
            tuple(canonical(law.content()) for law in LAWS),
            (AccountingError, SignatureError),
            of_json,
        ),
        Target(
            "text of noise",
            read_text_of_noise,
            (b"geometric:0.6065:27", b"gaussian:153339412480/4294967296:37", b"geometric:0.5:6"),
            (AccountingError,),
            of_text,
        ),
        Target(
            "sum of noise",
            read_sum_of_noise,
            tuple(record.signed_by(PARTIES.shuffler).body for record in NOISY_BATCHES),
            (*signatures, Refusal),
            of_json,
        ),
        Target("draft", read_draft, drafts, (TaskError,), of_text),
        Target("certificate", read_certificate, files, (VerificationError,), of_json, True),
        Target("certificate signed", read_signed_certificate, bodies, (VerificationError,), of_json, True),
        Target("public key", read_public_key, (_public_pem(),), signatures),
        Target("private key", read_private_key, (_private_pem(),), signatures),
        _settings_target("shuffler", shuffler_settings.ShufflerSettings),
        _settings_target("analyzer", analyzer_settings.AnalyzerSettings),
        Target("settings client", read_client_settings, (sample("client.toml").encode(),), (SettingsError,), of_text),
        _settings_target("operator", OperatorSettings),
        Target("CSV", read_csv, (b"carrier,delay\ndark,1.5\nlight,\ndark,3\n",), (HubbubError,), of_text),
        Target("Parquet", read_parquet, (_parquet(),), (HubbubError,)),
        Target("rounds file", read_rounds_file, rounds, (AccountingError,), of_json),
        Target("rounds text", read_rounds_file, rounds, (AccountingError,), of_text),
        Target("ledger entry", read_ledger_entry, entries, (LedgerBroken,), of_json),
        Target(
            "state file",
            open_state_file,
            tuple(gzip.decompress(path.read_bytes()) for path in sorted(STATES.glob("state-*.db.gz"))),
            (StateError, NoRound),
            of_used_bytes,
            costly=True,
        ),
    ]


TARGETS = {target.name: target for target in _targets()}
"""Every target by name."""
