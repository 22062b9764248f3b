"""The vector of a whole session: the Python device draws, checks and sends what it says, and its parties open it."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from hubbub.client import Device
from hubbub.client.submit import Retrying
from hubbub.protos.sealing.envelope import Destination, InnerOpener, OuterOpener
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.transport.https import HTTPSChannel
from hubbub.protos.v1 import submission_pb2
from vectors.make_session import FILE, encoded

KEPT = json.loads(FILE.read_bytes())
THEN = KEPT["then"]


class Drawn:
    """The random bytes of the vector, in the order in which a device draws them."""

    def __init__(self) -> None:
        self.left = bytes.fromhex("".join(KEPT["random"][name] for name in ("reports", "submission_id", "device_key")))

    def __call__(self, count: int) -> bytes:
        taken, self.left = self.left[:count], self.left[count:]
        assert len(taken) == count
        return taken


def test_the_file_is_what_its_program_writes() -> None:
    assert encoded() == FILE.read_bytes()


def test_a_device_goes_through_the_session(tmp_path: Path, monkeypatch: Any) -> None:
    """With a shuffler that answers as the file does. The device's envelope is its own: HPKE draws by itself."""
    exchanges, sent = iter(KEPT["exchanges"]), list[tuple[str, bytes]]()

    def answered(_self: HTTPSChannel, method: str, body: bytes, _until: float) -> tuple[int, dict[str, str], bytes]:
        each = next(exchanges)
        assert each["call"] == method
        sent.append((method, body))
        return each["status"], each["headers"], bytes.fromhex(each["body"])

    async def at_once(_seconds: float) -> None:
        return

    monkeypatch.setattr(HTTPSChannel, "_called", answered)
    monkeypatch.setattr("hubbub.protos.transport.https._context", lambda _tls: None)
    monkeypatch.setattr("hubbub.client.session.session.trusted_authority", lambda _given: b"")
    random = Drawn()
    device = Device(
        base64.b64decode(KEPT["task"]),
        operator_key=bytes.fromhex(KEPT["operator_key"]),
        shuffler_key=bytes.fromhex(KEPT["shuffler_key"]),
        state=tmp_path / "state.db",
        shuffler="https://127.0.0.1:7308",
        authority=b"",
        ticket=KEPT["ticket"].encode(),
        retrying=Retrying(sleep=at_once),
        random=random,
        clock=lambda: float(KEPT["now"]),
    )
    receipt = device.submit_blocking(KEPT["answers"])
    assert (receipt.submission_id.hex(), receipt.round) == (KEPT["random"]["submission_id"], THEN["round"])
    assert (random.left, list(exchanges)) == (b"", [])
    for (method, body), each in zip(sent, KEPT["exchanges"], strict=True):
        if method != "Submit":
            assert body.hex() == each["request"]
    # The same bytes twice, of the vector's form, with its reports inside.
    assert sent[2] == sent[3]
    assert len(sent[2][1]) * 2 == len(KEPT["exchanges"][2]["request"])
    made = submission_pb2.SubmitRequest.FromString(sent[2][1])
    assert opened(made.submission.envelope, made.submission.id) == THEN["reports"]


def opened(envelope: bytes, submission_id: bytes) -> list[str]:
    """The reports in an envelope, opened by the shuffler, the hop and the analyzer."""
    task = SignedTask.decode(base64.b64decode(KEPT["task"])).task
    to = Destination(task.id, THEN["round"], bytes.fromhex(THEN["key_set_hash"]))
    private = {name: bytes.fromhex(key) for name, key in KEPT["private"].items()}
    inners = OuterOpener(to, private["shuffler"], task.inner_bytes).open(envelope, submission_id)
    found = []
    for query, inner in enumerate(inners):
        at_analyzer = InnerOpener(to, private["hop-2"], query, hop=2).open(inner)
        found.append(InnerOpener(to, private["analyzer"], query).open(at_analyzer).hex())
    return found


def test_the_parties_open_what_the_vector_sealed() -> None:
    assert opened(bytes.fromhex(THEN["envelope"]), bytes.fromhex(KEPT["random"]["submission_id"])) == THEN["reports"]
