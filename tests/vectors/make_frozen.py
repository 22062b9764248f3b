"""Writes tests/vectors/frozen.json: the bytes of every form that is signed, sealed, stored or sent, and all fields.

    python tests/vectors/make_frozen.py

It adds what is new, and never changes what is there. Bytes that change get a new name with a new version, beside the
old one: other programs have implemented the old one, and people keep what was signed under it. Until the first release
you may change a form under its name: delete its entry from the file by hand, and run this.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1]
sys.path.insert(0, str(TESTS))

from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor  # noqa: E402

from hubbub.accountant.mechanisms import KRR  # noqa: E402
from hubbub.accountant.pairs import Part  # noqa: E402
from hubbub.accountant.spending import ledger  # noqa: E402
from hubbub.accountant.spending.entry import LedgerEntry  # noqa: E402
from hubbub.client.session.sealed_submission import Ending, Outcome, SealedSubmission  # noqa: E402
from hubbub.protos.enrollment import credentials  # noqa: E402
from hubbub.protos.identity.documents import canonical, sign  # noqa: E402
from hubbub.protos.identity.formats import Label  # noqa: E402
from hubbub.protos.messages import Submission  # noqa: E402
from hubbub.protos.records.batch import released_digest  # noqa: E402
from hubbub.protos.records.counts import counts_digest  # noqa: E402
from hubbub.protos.records.release_chain import Release, head_after  # noqa: E402
from hubbub.protos.records.results import RoundResults  # noqa: E402
from hubbub.protos.records.results_document import results_document, series_document  # noqa: E402
from hubbub.protos.sealing import envelope  # noqa: E402
from hubbub.protos.sealing.envelope import Destination  # noqa: E402
from hubbub.protos.v1 import (  # noqa: E402
    control_pb2,
    delivery_pb2,
    document_pb2,
    incidents_pb2,
    leader_pb2,
    replication_pb2,
    results_pb2,
    submission_pb2,
    tasks_pb2,
)
from hubbub.queries.randomizers.hash_functions import cell_of  # noqa: E402
from hubbub.queries.texts.text import Text  # noqa: E402
from hubbub.service.sqlite.wal_guard import WalPosition  # noqa: E402
from support import transparency_logs  # noqa: E402
from support.certificates import content_of, counts, encode  # noqa: E402
from support.samples import signed  # noqa: E402
from vectors import make_example, make_signed, make_tickets  # noqa: E402
from vectors.make_hops import Chain  # noqa: E402
from vectors.make_signed import PARTIES, vector_task  # noqa: E402

FILE = Path(__file__).parent / "frozen.json"

HERE = Destination(b"t" * 32, 7, b"k" * 32)
KEY = bytes(range(32))
CREDENTIAL = credentials.Credential(bytes(44), KEY)
SENT = CREDENTIAL.proven(HERE, Submission(b"i" * 16, b"sealed bytes"))
CHARGE = LedgerEntry("usage", 3, "theme", Part(KRR(4, Fraction(1, 4)), 1000, 1, 0))


def _certificate() -> bytes:
    task = vector_task()
    history = [counts(task, 0, 120), counts(task, 2, 130, left_out=4)]
    return shape(json.loads(encode(content_of(task, PARTIES, history), PARTIES)))


def _results(document: Callable[[RoundResults], Any]) -> bytes:
    task = make_example.task_of((make_example.TRANSPORT, make_example.DURATION), 1)
    return shape(json.loads(json.dumps(document(make_example.results_in(task)[1]))))


def shape(document: Any) -> bytes:
    """Return which members a document has, and of which kind: better bounds change its numbers, and not its form."""
    found = set[str]()

    def look(value: Any, path: str) -> None:
        if isinstance(value, dict):
            for name, inner in value.items():
                look(inner, f"{path}.{name}")
        elif isinstance(value, list):
            for inner in value:
                look(inner, f"{path}[]")
        else:
            found.add(f"{path} {'number' if isinstance(value, int | float) else type(value).__name__}")

    look(document, "")
    return "\n".join(sorted(found)).encode()


def _ledger() -> bytes:
    return (ledger._start("usage") + ledger._next("00" * 32, CHARGE)).encode()


def _number(count: int) -> bytes:
    return count.to_bytes(8, "big")


FORMS: Mapping[str, Callable[[], bytes]] = {
    # Documents
    "hubbub-task/1": lambda: signed(vector_task(), PARTIES).encode(),
    "hubbub-key/1": lambda: canonical(make_signed.vector_key().as_json()),
    "hubbub-batch/1": lambda: canonical(make_signed.vector_records()[0].as_json()),
    "hubbub-hop/1": lambda: canonical(make_signed.vector_records()[1].as_json()),
    "hubbub-certificate/1": _certificate,
    "hubbub-succession/1": lambda: make_signed.vector_succession().encode(),
    "hubbub-ticket/1": lambda: make_signed.vector_ticket().encode(),
    "hubbub-feed/1": lambda: make_signed.vector_feed_entry().encode(),
    "hubbub-oblivious/1": lambda: canonical(make_signed.vector_oblivious().as_json()),
    "hubbub-results/1": lambda: _results(results_document),
    "hubbub-series/1": lambda: _results(lambda results: series_document([results])),
    "hubbub-submission/1": lambda: SealedSubmission(HERE, SENT).encode(),
    "hubbub-outcome/1": lambda: Outcome(HERE, b"i" * 16, Ending.ACKNOWLEDGED).encode(),
    "hubbub-charge/1": lambda: CHARGE.canonical().encode(),
    "hubbub-mark/1": lambda: WalPosition(b"saltsalt", 7).encode(),
    # Hashes, signatures and MACs
    "hubbub/v1 key set": lambda: Chain.of(1).key_set.hash,
    "hubbub/v1 batch digest": lambda: released_digest([b"aaaa", b"bbbb"]),
    "hubbub/v1 releases": lambda: head_after(b"t" * 32, [Release(3, 20, 5, (b"r" * 32,))]),
    "hubbub/v1 counts": lambda: counts_digest(vector_task(), 3, []),
    "hubbub/v1 counted batch": lambda: sign(Label.COUNTED, b"{}", PARTIES.analyzer.key),
    "hubbub/v1 countersigned ticket": lambda: make_tickets.list_of(2)[0].encode(),
    "hubbub/v1 credential key": lambda: credentials.credential_key(KEY, bytes(44)),
    "hubbub/v1 second authority": lambda: credentials.authority_tag(KEY),
    "hubbub/v1 device key": lambda: credentials.redeemed_by(KEY),
    "hubbub/v1 oblivious key": lambda: credentials.oblivious_seed(KEY),
    "hubbub/v1 master key fingerprint": lambda: credentials.master_fingerprint(KEY).encode(),
    "hubbub/v1 submission proof": lambda: SENT.proof,
    "hubbub/v1 ledger": _ledger,
    # The contexts of envelopes
    "hubbub/v1 analyzer": lambda: envelope._inner_info(HERE, 1, None),
    "hubbub/v1 hop": lambda: envelope._inner_info(HERE, 1, 2),
    "hubbub/v1 shuffler": lambda: envelope.OuterOpener(HERE, KEY, [52])._info,
    # Logs
    "hubbub-growth/1": lambda: transparency_logs.vector_proofs()[1].encode(),
    "hubbub-views/1": lambda: transparency_logs.vector_proofs()[2].encode(),
    # Symbols
    "hubbub-text-1": lambda: _number(Text("drink").digest("maté")),
    "hubbub-prefix-1": lambda: _number(Text("drink", prefixes=(3,)).encode_in("maté", 0, bytes)),
    "hubbub-hashed-1": lambda: _number(cell_of(16, 8, 2**29, 5, 2**40 + 1)),
}
"""The bytes of each form, by its label or format, from inputs that never change."""

PROTOS: tuple[FileDescriptor, ...] = tuple(
    module.DESCRIPTOR
    for module in (
        document_pb2,
        submission_pb2,
        control_pb2,
        delivery_pb2,
        results_pb2,
        tasks_pb2,
        incidents_pb2,
        leader_pb2,
        replication_pb2,
    )
)


def forms() -> dict[str, str]:
    """Return the SHA-256 of each form's bytes."""
    return {name: hashlib.sha256(make()).hexdigest() for name, make in FORMS.items()}


def wire() -> dict[str, str]:
    """Return each field, value of an enumeration and call of the .proto files, by its place, in words."""
    found: dict[str, str] = {}
    for file in PROTOS:
        for message in file.message_types_by_name.values():
            found |= _fields(message)
        for enum in file.enum_types_by_name.values():
            found |= {f"{enum.full_name} {value.number}": value.name for value in enum.values}
        for service in file.services_by_name.values():
            for method in service.methods:
                found[f"{service.full_name}/{method.name}"] = (
                    f"{method.input_type.full_name} -> {method.output_type.full_name}"
                )
    return found


_KINDS = {
    value: name.removeprefix("TYPE_").lower() for name, value in vars(FieldDescriptor).items() if name[:5] == "TYPE_"
}


def _fields(message: Descriptor) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in message.fields:
        kind = each.message_type or each.enum_type
        words = ["repeated"] if each.is_repeated else []
        words += [_KINDS[each.type] if kind is None else kind.full_name, each.name]
        words += [] if each.containing_oneof is None else [f"in {each.containing_oneof.name}"]
        found[f"{message.full_name} {each.number}"] = " ".join(words)
    for inner in message.nested_types:
        found |= _fields(inner)
    return found


def content() -> dict[str, Any]:
    """Return what the file has now, and what is new."""
    kept = json.loads(FILE.read_bytes()) if FILE.exists() else {"forms": {}, "protos": {}}
    return {"forms": forms() | kept["forms"], "protos": wire() | kept["protos"]}


def encoded() -> bytes:
    """Return the file with what is new."""
    return (json.dumps(content(), indent=1, sort_keys=True) + "\n").encode()


if __name__ == "__main__":
    FILE.write_bytes(encoded())
