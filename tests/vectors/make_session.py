"""Writes tests/vectors/wire/session.json: one device of an enrolled task with a hop, from its task to its receipt.

    python tests/vectors/make_session.py

All that it draws is in the file, in order, and so is each message that it sends and gets. The first try is refused, so
that the same bytes come twice. `tests/unit/client/test_session_vector.py` checks the file. These bytes stay for ever.
"""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1]
sys.path.insert(0, str(TESTS))

from hubbub.client.encode import encode_all, randomize_all  # noqa: E402
from hubbub.protos import codec  # noqa: E402
from hubbub.protos.enrollment.credentials import (  # noqa: E402
    NO_AUTHORITY,
    Credential,
    CredentialId,
    bound_to,
    credential_key,
)
from hubbub.protos.messages import Receipt, Submission  # noqa: E402
from hubbub.protos.refusals import Reason, Refusal  # noqa: E402
from hubbub.protos.task.admission import ENROLLED  # noqa: E402
from hubbub.protos.v1 import submission_pb2  # noqa: E402
from hubbub.queries.questions.question import Value  # noqa: E402
from hubbub.service.rpc.connect import refused  # noqa: E402
from support.samples import signed  # noqa: E402
from vectors.make_answers import Recorded  # noqa: E402
from vectors.make_hops import NOW, ROUND, Chain  # noqa: E402
from vectors.make_signed import PARTIES, vector_ticket  # noqa: E402

FILE = Path(__file__).parent / "wire" / "session.json"

CHAIN = Chain.of(1, admission=ENROLLED)
ANSWERS: dict[str, Value] = {"carrier": "UA", "delay": 42.5}
MASTER = bytes(range(32))
CREDENTIAL_ID = CredentialId(0, vector_ticket().expires, NO_AUTHORITY, bytes(range(48, 64))).encode()
WAIT = 1.0
"""Seconds that the first refusal asks for."""


def content() -> dict[str, Any]:
    """Return what the file has."""
    task, random = CHAIN.task, Recorded(b"", "session")
    encoded = encode_all(task, ANSWERS, random, ROUND)
    reports = randomize_all(task, [each.symbol for each in encoded], random)
    of_reports = random.taken()
    submission_id, device_key = bytes.fromhex(_drawn(random, 16)), bytes.fromhex(_drawn(random, 32))
    layers = CHAIN.sealed(reports, submission_id)
    credential = Credential(CREDENTIAL_ID, credential_key(MASTER, CREDENTIAL_ID))
    bare = Submission(submission_id, bytes.fromhex(layers["outer"]))
    proven = credential.proven_within(bound_to(CHAIN.destination), bare)
    names = ("shuffler", *CHAIN.names, "analyzer")
    return {
        "origin": "November 2026: a session made for this file; the keys protect nothing.",
        "operator_key": PARTIES.operator.public.hex(),
        "shuffler_key": PARTIES.shuffler.public.hex(),
        "task": base64.b64encode(signed(task, CHAIN.parties).encode()).decode(),
        "ticket": vector_ticket().encode().decode(),
        "now": NOW,
        "answers": ANSWERS,
        "random": {"reports": of_reports, "submission_id": submission_id.hex(), "device_key": device_key.hex()},
        "then": {
            "task_id": task.id.hex(),
            "round": ROUND,
            "symbols": [each.symbol for each in encoded],
            "reports": [report.hex() for report in reports],
            "key_set_hash": CHAIN.key_set.hash.hex(),
            "layers": layers["layers"],
            "envelope": layers["outer"],
            "proof": proven.proof.hex(),
        },
        "private": {name: CHAIN.private(name).hex() for name in names},
        "exchanges": list(_exchanges(device_key, credential, proven)),
    }


def _drawn(random: Recorded, count: int) -> str:
    random(count)
    return random.taken()


def _exchanges(device_key: bytes, credential: Credential, proven: Submission) -> list[dict[str, Any]]:
    ask = submission_pb2.GetRoundRequest(task_id=CHAIN.task.id, round=ROUND)
    keys = submission_pb2.GetRoundResponse(key_set=codec.write_key_set(CHAIN.key_set))
    redemption = submission_pb2.Redemption(ticket=vector_ticket().encode(), device_key=device_key)
    given = submission_pb2.Credential(id=credential.id, key=credential.key)
    submit = submission_pb2.SubmitRequest(
        destination=codec.write_destination(CHAIN.destination), submission=codec.write_submission(proven)
    )
    receipt = submission_pb2.SubmitResponse(receipt=codec.write_receipt(Receipt(proven.id, ROUND)))
    refusal = refused(Refusal(Reason.OVERLOADED, "the shuffler has as much work as it can do in time", WAIT))
    enroll = submission_pb2.EnrollRequest(redemptions=[redemption])
    enrolled = submission_pb2.EnrollResponse(answers=[submission_pb2.Enrolled(credential=given)])
    return [
        _exchange("GetRound", ask, 200, keys.SerializeToString()),
        _exchange("Enroll", enroll, 200, enrolled.SerializeToString()),
        _exchange("Submit", submit, refusal.status, refusal.body, dict(refusal.headers)),
        _exchange("Submit", submit, 200, receipt.SerializeToString()),
    ]


def _exchange(
    call: str, request: Any, status: int, body: bytes, headers: dict[str, str] | None = None
) -> dict[str, Any]:
    proto = {"content-type": "application/proto"}
    return {
        "call": call,
        "request": request.SerializeToString().hex(),
        "status": status,
        "headers": proto if headers is None else headers,
        "body": body.hex(),
    }


def encoded() -> bytes:
    """Return the file."""
    return (json.dumps(content(), indent=1) + "\n").encode()


if __name__ == "__main__":
    FILE.write_bytes(encoded())
