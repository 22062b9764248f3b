"""Writes tests/vectors/wire/hops.json: round keys of tasks with hops, and submissions through a chain, layer by layer.

    python tests/vectors/make_hops.py

The layers are sealed with ephemeral keys that are in the file, so that a client whose library takes one gives these
bytes. `tests/unit/protos/sealing/test_hop_vectors.py` checks the file. These bytes stay: it changes by additions only.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1]
sys.path.insert(0, str(TESTS))

from hubbub.protos.identity.documents import SignedDocument, canonical, sign  # noqa: E402
from hubbub.protos.identity.formats import KEY_RECORD  # noqa: E402
from hubbub.protos.identity.keys import Identity, KeyRecord, KeySet, Role  # noqa: E402
from hubbub.protos.sealing.envelope import Destination  # noqa: E402
from hubbub.protos.task.task import Task  # noqa: E402
from support.fixed_hpke import public_of, sealed  # noqa: E402
from support.samples import Parties, sample_task  # noqa: E402
from vectors.make_signed import PARTIES, identity  # noqa: E402

FILE = Path(__file__).parent / "wire" / "hops.json"

NOW, ROUND = 1_767_230_000, 1
"""The time on the client's clock, and the round."""

HOPS = (identity(15), identity(16))
REPORTS = (bytes.fromhex("00000001"), bytes.fromhex("00000007"))
SUBMISSION_ID = bytes(range(32, 48))


@dataclass(frozen=True)
class Chain:
    """A task with hops, and the private keys of its round by party: the shuffler's, the hops', the analyzer's."""

    task: Task
    parties: Parties

    @classmethod
    def of(cls, hops: int, **changes: Any) -> Chain:
        """The chain with so many hops."""
        parties = replace(PARTIES, hops=HOPS[:hops])
        return cls(sample_task(parties, **changes), parties)

    def private(self, name: str) -> bytes:
        """The raw private key of `shuffler`, `hop-2`, `hop-3` or `analyzer`."""
        return bytes([{"shuffler": 60, "analyzer": 61}.get(name) or 60 + int(name[-1])]) * 32

    @property
    def names(self) -> list[str]:
        """The hops by name, in their order."""
        return [f"hop-{position}" for position, _ in enumerate(self.parties.hops, 2)]

    def record(self, role: Role, name: str, behind: SignedDocument | None = None) -> KeyRecord:
        """The key record of a party."""
        public = public_of(self.private(name))
        return KeyRecord(role, self.task.id, ROUND, self.task.suite, public, NOW - 1000, NOW + 10_000, behind)

    def analyzer(self) -> SignedDocument:
        """The analyzer's signed key record."""
        return self.record(Role.ANALYZER, "analyzer").signed_by(self.parties.analyzer)

    def around(self, inner: SignedDocument, names: Sequence[str], hops: Sequence[Identity]) -> SignedDocument:
        """The signed record of the first of these hops, with those of all behind it."""
        for name, hop in zip(reversed(names), reversed(hops), strict=True):
            inner = self.record(Role.HOP, name, inner).signed_by(hop)
        return inner

    @property
    def key_set(self) -> KeySet:
        """The round's keys, as a shuffler gives them."""
        shuffler = self.record(Role.SHUFFLER, "shuffler").signed_by(self.parties.shuffler)
        return KeySet(shuffler, self.around(self.analyzer(), self.names, self.parties.hops))

    @property
    def destination(self) -> Destination:
        """The destination of its envelopes."""
        return Destination(self.task.id, ROUND, self.key_set.hash)

    def sealed(self, reports: Sequence[bytes], submission_id: bytes) -> dict[str, Any]:
        """Each layer of a submission, as docs/wire-calls.md says it, in the order in which they are sealed."""
        to = self.destination
        where = to.task_id + to.round.to_bytes(4, "big") + to.key_set_hash
        steps: list[dict[str, Any]] = []

        def layer(plain: bytes, name: str, info: bytes) -> bytes:
            ephemeral = bytes([100 + len(steps)]) * 32
            made = sealed(plain, public_of(self.private(name)), info, ephemeral)
            steps.append({"to": name, "info": info.hex(), "ephemeral": ephemeral.hex(), "envelope": made.hex()})
            return made

        inners = []
        for query, report in enumerate(reports):
            index = query.to_bytes(4, "big")
            inner = layer(report, "analyzer", b"hubbub/v1 analyzer" + where + index)
            for position in range(1 + len(self.names), 1, -1):
                info = b"hubbub/v1 hop" + position.to_bytes(4, "big") + where + index
                inner = layer(inner, f"hop-{position}", info)
            inners.append(inner)
        outer = layer(b"".join(inners), "shuffler", b"hubbub/v1 shuffler" + where + submission_id)
        return {"layers": steps, "outer": outer.hex()}


def key_cases(chain: Chain) -> Iterator[tuple[str, str | None, SignedDocument]]:
    """What is different, the word for it, and the record in the analyzer's place; the shuffler's is always good."""
    names, hops, nobody = chain.names, chain.parties.hops, identity(99)
    good = chain.around(chain.analyzer(), names, hops)
    yield "as they were signed", None, good
    yield "the analyzer's record alone", "hops", chain.analyzer()
    yield "one hop fewer", "hops", chain.around(chain.analyzer(), names[:1], hops[:1])
    last = chain.around(chain.analyzer(), names[1:], hops[1:])
    third = chain.record(Role.HOP, "hop-3", last).signed_by(hops[1])
    yield "one hop more", "hops", chain.around(third, names[:1], hops[:1])
    yield "the hops in another order", "signature", chain.around(chain.analyzer(), names[::-1], hops[::-1])
    yield "the first hop's record by nobody", "signature", chain.around(chain.analyzer(), names, (nobody, hops[1]))
    yield "the second hop's record by nobody", "signature", chain.around(chain.analyzer(), names, (hops[0], nobody))
    of_nobody = chain.record(Role.ANALYZER, "analyzer").signed_by(nobody)
    yield "the analyzer's record inside by nobody", "signature", chain.around(of_nobody, names, hops)
    inner = chain.record(Role.ANALYZER, "analyzer")
    for what, because, changed in (
        ("the analyzer's record inside of another round", "round", {"round": ROUND + 1}),
        ("the analyzer's record inside of another task", "task", {"task_id": bytes(32)}),
        ("the analyzer's record inside is over", "time", {"not_after": NOW - 1}),
    ):
        signed = replace(inner, **changed).signed_by(chain.parties.analyzer)
        yield what, because, chain.around(signed, names, hops)
    as_shuffler = replace(inner, role=Role.SHUFFLER).signed_by(chain.parties.analyzer)
    yield "the shuffler's role in the analyzer's place", "role", chain.around(as_shuffler, names, hops)
    bare = json.loads(good.body)
    del bare["behind"]
    body = canonical(bare)
    yield (
        "a hop's record without the one behind it",
        "value",
        SignedDocument(body, sign(KEY_RECORD.format, body, hops[0].key)),
    )


def content() -> dict[str, Any]:
    """Return what the file has."""
    two = Chain.of(2)
    return {
        "origin": "November 2026: chains of hops, made for this file; the keys protect nothing.",
        "keys": {
            **{role: PARTIES.of(Role(role)).public.hex() for role in ("operator", "shuffler", "analyzer")},
            "hops": [hop.public.hex() for hop in HOPS],
        },
        "round_keys": {
            "task": two.task.id.hex(),
            "suite": two.task.suite,
            "round": ROUND,
            "now": NOW,
            "sets": [
                {
                    "what": what,
                    "because": because,
                    "shuffler": record(two.key_set.shuffler),
                    "analyzer": record(first),
                    "key_set_hash": KeySet(two.key_set.shuffler, first).hash.hex(),
                }
                for what, because, first in key_cases(two)
            ],
        },
        "sealed": [_submission(Chain.of(hops)) for hops in (1, 2)],
    }


def _submission(chain: Chain) -> dict[str, Any]:
    to = chain.destination
    return {
        "suite": chain.task.suite,
        "private": {name: chain.private(name).hex() for name in ("shuffler", *chain.names, "analyzer")},
        "destination": {"task_id": to.task_id.hex(), "round": to.round, "key_set_hash": to.key_set_hash.hex()},
        "submission_id": SUBMISSION_ID.hex(),
        "reports": [report.hex() for report in REPORTS],
        **chain.sealed(REPORTS, SUBMISSION_ID),
    }


def record(document: SignedDocument) -> dict[str, str]:
    """A signed document, its body in base64."""
    return {"body": base64.b64encode(document.body).decode(), "signature": document.signature.hex()}


def encoded() -> bytes:
    """Return the file."""
    return (json.dumps(content(), indent=1) + "\n").encode()


if __name__ == "__main__":
    FILE.write_bytes(encoded())
