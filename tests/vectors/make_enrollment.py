"""Writes tests/vectors/wire/enrollment.json: what a device computes to enroll, and the proof of each submission.

    python tests/vectors/make_enrollment.py

A client in another language has written them correctly if it computes the same bytes. `tests/unit/protos/enrollment`
checks that the file is what this program writes. These bytes stay for ever: the file changes only by additions.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1]
sys.path.insert(0, str(TESTS))

from hubbub.protos.enrollment.credentials import (  # noqa: E402
    NO_AUTHORITY,
    Credential,
    CredentialId,
    authority_tag,
    bound_to,
    credential_key,
    is_proven,
    pseudonyms_of,
    redeemed_by,
)
from hubbub.protos.messages import Submission  # noqa: E402
from hubbub.protos.sealing.envelope import Destination  # noqa: E402

FILE = Path(__file__).parent / "wire" / "enrollment.json"

MASTER = bytes(range(32))
AUTHORITY = b"s" * 32
DEVICE_KEY = b"d" * 32
PSEUDONYM_KEY = b"p" * 32
ID = CredentialId(7, 1_800_000_000, authority_tag(AUTHORITY), bytes(range(16)))
TO = Destination(b"t" * 32, 3, b"k" * 32)
SUBMISSION = Submission(b"i" * 16, b"sealed bytes")


def wrong_for() -> dict[str, tuple[Destination, Submission]]:
    """Submissions for which the proof of `SUBMISSION` to `TO` is no proof, each changed in one thing."""
    return {
        "another task": (replace(TO, task_id=b"u" * 32), SUBMISSION),
        "another round": (replace(TO, round=4), SUBMISSION),
        "another key set": (replace(TO, key_set_hash=b"l" * 32), SUBMISSION),
        "another submission id": (TO, replace(SUBMISSION, id=b"j" * 16)),
        "another envelope": (TO, replace(SUBMISSION, envelope=b"sealed byteS")),
    }


def document() -> dict[str, Any]:
    """The content of the file; all bytes are hex digits."""
    held = credential_of(ID)
    alone = replace(ID, authority=NO_AUTHORITY)
    proof = held.proven(TO, SUBMISSION).proof
    wrong = wrong_for()
    assert not any(is_proven(held.key, bound_to(to), replace(each, proof=proof)) for to, each in wrong.values())
    return {
        "origin": "November 2026: credentials and proofs as hubbub makes them. The keys were made for this file and "
        "protect nothing. docs/reference/formats.md (Tickets and credentials) has the formulas.",
        "device": {
            "device_key": DEVICE_KEY.hex(),
            "redeemed_by": redeemed_by(DEVICE_KEY).hex(),
        },
        "shuffler": {
            "master_key": MASTER.hex(),
            "second_authority": AUTHORITY.hex(),
            "pseudonym_key": PSEUDONYM_KEY.hex(),
            "pseudonym": pseudonyms_of(PSEUDONYM_KEY).of(ID.number).hex(),
        },
        "credentials": [credential(each) for each in (ID, alone)],
        "destination": destination(TO),
        "submission": submission(SUBMISSION),
        "proofs": [
            {"credential": each.encode().hex(), "proof": credential_of(each).proven(TO, SUBMISSION).proof.hex()}
            for each in (ID, alone)
        ],
        "wrong_for": [
            {
                "why": why,
                "destination": destination(to),
                "submission": submission(each),
                "credential": held.id.hex(),
                "proof": proof.hex(),
            }
            for why, (to, each) in wrong.items()
        ],
    }


def credential_of(of: CredentialId) -> Credential:
    """The credential of an id under `MASTER`."""
    return Credential(of.encode(), credential_key(MASTER, of.encode()))


def credential(of: CredentialId) -> dict[str, Any]:
    """An id with its parts, and its key."""
    parts = {"generation": of.generation, "expires": of.expires}
    return {
        **parts,
        "authority_tag": of.authority.hex(),
        "number": of.number.hex(),
        "id": of.encode().hex(),
        "key": credential_of(of).key.hex(),
    }


def destination(to: Destination) -> dict[str, Any]:
    """A destination as `sealed.json` has it."""
    return {"task_id": to.task_id.hex(), "round": to.round, "key_set_hash": to.key_set_hash.hex()}


def submission(each: Submission) -> dict[str, str]:
    """What a proof is of."""
    return {"submission_id": each.id.hex(), "envelope": each.envelope.hex()}


def written() -> str:
    """The file's text."""
    return json.dumps(document(), indent=2) + "\n"


if __name__ == "__main__":
    FILE.write_text(written())
    sys.stdout.write(f"wrote {FILE}\n")
