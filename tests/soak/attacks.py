"""Attacks on the public, the metrics and the HTTPS port, each a process of its own, on loopback.

    python tests/soak/attacks.py NAME --address HOST:PORT --authority PEM --seconds 60 [--source 127.0.0.2] …

It prints an empty line when it begins. It ends by itself when the seconds are over, and then prints one JSON object:
what it sent and what came back.
Those by HTTPS are in `https_attacks.py`, those below HTTP in `tls_attacks.py`. `withstand.py` runs them against a
pipeline and measures what they do.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import resource
import socket
import ssl
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from soak import https_attacks, tls_attacks

from hubbub.protos import codec
from hubbub.protos.identity.keys import HASH_BYTES, KeySet
from hubbub.protos.messages import Submission
from hubbub.protos.refusals import Refusal
from hubbub.protos.rpc import SubmissionCaller
from hubbub.protos.sealing.envelope import SUBMISSION_ID_BYTES, Destination, Sealer, inner_bytes
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.task import Task
from hubbub.protos.transport.addresses import parted
from hubbub.protos.transport.channels import MAXIMUM_SUBMISSIONS, TLS, open_channel
from hubbub.protos.v1 import submission_pb2
from support.http2_frames import (
    FRAME_BYTES,
    SUBMIT,
    SUBMIT_BATCH,
    WATCH,
    Connection,
    connect,
    empty_submissions,
    gzip_message,
    message,
)

EMPTY = 3_900_000
"""Empty submissions in one message: 7,671 bytes on the wire, compressed."""

UNFINISHED_BYTES = (7_900_000, 1_000_000, 200_000, 60_000, 16_000, 2_000)
"""Sizes of calls that are never finished: the largest that the service begins to take counts."""

PAUSE_SECONDS = 0.05
"""Between two tries of a connection that was refused: who attacks is refused cheaply, and tries again."""

SILENT = 1100
"""Sockets that say nothing: more than the 1,024 files that a process may have open by default."""

BATCH = 200
"""Submissions that are made up for one call."""

CPU = "milliseconds of a core"
"""The name under which it says what it took itself."""

MESSAGE_HEAD = 5
"""Bytes before a gRPC message: whether it is compressed, and its length."""


@dataclass(frozen=True)
class Target:
    """What is attacked, from which address, until when (`time.monotonic`)."""

    address: str
    tls: TLS
    source: str
    until: float
    metrics: str = ""
    task: Path | None = None
    alpn: tuple[str, ...] = ()

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return max(0.0, self.until - time.monotonic())

    def connections(self, sent: Counter[str]) -> Iterator[Connection]:
        """Connect again and again until the time is over; each connection is closed when the next is asked for."""
        while self.left:
            try:
                attacker = connect(self.address, self.tls, 5.0, self.source)
            except (OSError, ssl.SSLError):
                sent["connections refused"] += 1
                time.sleep(min(PAUSE_SECONDS, self.left))
                continue
            sent["connections"] += 1
            with attacker:
                yield attacker
            # Counted by what was said last, where anything was.
            sent["connections closed"] += attacker.going_away is not None or attacker.closed

    @cached_property
    def context(self) -> ssl.SSLContext:
        """What connections to the HTTPS port agree on TLS with."""
        return ssl.create_default_context(cafile=str(self.tls.authority))

    @cached_property
    def place(self) -> tuple[str, int]:
        """Where sockets without TLS are opened."""
        host, port = parted(self.address)
        return host.strip("[]"), int(port)


def tiny(target: Target, sent: Counter[str]) -> None:
    """Calls of a few bytes that unfold to millions of empty submissions, 25 at once on a connection."""
    bomb = gzip_message(empty_submissions(EMPTY))
    for attacker in target.connections(sent):
        while target.left and not attacker.closed:
            streams = [attacker.open(SUBMIT_BATCH, "gzip") for _ in range(25)]
            for stream in streams:
                attacker.send(stream, bomb, end=True, seconds=min(5.0, target.left))
            sent["calls"] += len(streams)
            _answers(attacker.all_ended(streams, min(15.0, target.left)), sent)


def nothing(target: Target, sent: Counter[str]) -> None:
    """Calls of 20 kB, each of 10,000 submissions to somewhere that are nothing, one after the other."""
    request = submission_pb2.SubmitBatchRequest(destination=codec.write_destination(_nowhere())).SerializeToString()
    request += empty_submissions(MAXIMUM_SUBMISSIONS)
    for attacker in target.connections(sent):
        while target.left and not attacker.closed:
            sent["calls"] += 1
            stream = attacker.call(SUBMIT_BATCH, request, seconds=min(5.0, target.left))
            _answers([attacker.ended(stream, min(15.0, target.left))], sent)


def unread(target: Target, sent: Counter[str]) -> None:
    """Calls whose answers are not taken: the windows for them are of no bytes."""
    request = submission_pb2.SubmitBatchRequest(destination=codec.write_destination(_nowhere()))
    # Malformed each, so that each is answered by itself, wherever it goes.
    request.submissions.extend([submission_pb2.Submission(id=bytes(SUBMISSION_ID_BYTES + 1))] * MAXIMUM_SUBMISSIONS)
    raw = request.SerializeToString()
    for attacker in target.connections(sent):
        attacker.take_nothing()
        while target.left and not attacker.closed:
            attacker.call(SUBMIT_BATCH, raw, seconds=min(5.0, target.left))
            sent["calls"] += 1
            attacker.read(min(0.01, target.left))


def _nowhere() -> Destination:
    return Destination(bytes(HASH_BYTES), 0, bytes(HASH_BYTES))


def unfinished(target: Target, sent: Counter[str]) -> None:
    """Calls without their last 100 bytes, 50 at once on a connection, as large as the service begins to take."""
    size = 0
    for attacker in target.connections(sent):
        held: list[int] = []
        while target.left and not attacker.closed:
            # Those that were ended make room for the next.
            held = [stream for stream in held if attacker.ended(stream, 0.0) is None]
            if len(held) == 50:
                attacker.read(min(0.2, target.left))
                continue
            stream = attacker.open(SUBMIT_BATCH)
            whole = attacker.send(stream, message(bytes(UNFINISHED_BYTES[size]))[:-100], seconds=min(5.0, target.left))
            if whole or attacker.ended(stream, 0.0) is None:
                held.append(stream)
                sent[f"calls of {UNFINISHED_BYTES[size]:,} bytes"] += 1
            elif size + 1 < len(UNFINISHED_BYTES):
                size += 1


def locked(target: Target, sent: Counter[str]) -> None:
    """4,096 calls of headers only, half of them `Watch`, and as many again once they are refused."""
    for attacker in target.connections(sent):
        for path in (SUBMIT, WATCH):
            sent["calls"] += len(attacker.open_many(path, 2048))
        while target.left and not attacker.closed:
            if not attacker.read(min(1.0, target.left)):
                sent["calls"] += len(attacker.open_many(SUBMIT, 64))


def resets(target: Target, sent: Counter[str]) -> None:
    """Streams that are reset as soon as they are opened (CVE-2023-44487)."""
    for attacker in target.connections(sent):
        while target.left and attacker.rapid_reset(SUBMIT, 100):
            sent["resets"] += 100
            attacker.drain()


def filling(target: Target, sent: Counter[str]) -> None:
    """Submissions of a sealed outer layer around random bytes, as fast as they can be made."""
    if target.task is None:
        raise SystemExit("filling needs --task, a task that admits whoever comes")
    task = SignedTask.decode(target.task.read_bytes()).task
    key_set = asyncio.run(_key_set(target, task))
    ours = key_set.read(task.id, 0, task.suite, task.identities.shuffler, task.identities.analyzer)
    to = Destination(task.id, 0, key_set.hash)
    sealer = Sealer(to, ours[0].public_key, ours[1].public_key, task.hpke)
    lengths = [inner_bytes(query.report_bytes, task.hpke) for query in task.queries]
    for attacker in target.connections(sent):
        while target.left and not attacker.closed:
            request = submission_pb2.SubmitBatchRequest(
                destination=codec.write_destination(to),
                submissions=[codec.write_submission(_made_up(sealer, lengths)) for _ in range(BATCH)],
            )
            stream = attacker.call(SUBMIT_BATCH, request.SerializeToString(), seconds=min(5.0, target.left))
            ended = attacker.ended(stream, min(15.0, target.left))
            if ended is None or ended.status != 0:
                _answers([ended], sent)
                continue
            response = submission_pb2.SubmitBatchResponse.FromString(ended.body[MESSAGE_HEAD:])
            for answer in codec.read_answers(response):
                sent[answer.reason.value if isinstance(answer, Refusal) else "receipts"] += 1


async def _key_set(target: Target, task: Task) -> KeySet:
    async with open_channel(target.address, target.tls) as channel:
        return await SubmissionCaller(channel).get_round(task.id, 0, target.left)


def _made_up(sealer: Sealer, lengths: Sequence[int]) -> Submission:
    submission_id = os.urandom(SUBMISSION_ID_BYTES)
    return Submission(submission_id, sealer.outer([os.urandom(length) for length in lengths], submission_id))


def silent(target: Target, sent: Counter[str]) -> None:
    """Sockets that do not even begin TLS, opened again as they are closed."""
    held: list[socket.socket] = []
    while target.left:
        held = [each for each in held if _open(each)]
        while len(held) < SILENT and target.left:
            try:
                held.append(socket.create_connection(target.place, 1.0, (target.source, 0)))
            except OSError:
                sent["connections refused"] += 1
                break
            sent["connections"] += 1
        time.sleep(min(0.2, target.left))
    for each in held:
        each.close()


def _open(held: socket.socket) -> bool:
    """Whether the other side still has it; what is closed here is closed."""
    try:
        held.setblocking(False)
        still = held.recv(1) != b""
    except BlockingIOError:
        return True
    except OSError:
        still = False
    if not still:
        held.close()
    return still


def dripping(target: Target, sent: Counter[str]) -> None:
    """A request to the metrics port that comes a byte a second, and never ends."""
    host, port = parted(target.metrics)
    while target.left:
        with contextlib.suppress(OSError), socket.create_connection((host.strip("[]"), int(port)), 5.0) as drip:
            sent["connections"] += 1
            for byte in b"GET /metrics HTTP/1.1\r\nHost: x\r\nX: " + bytes([120]) * FRAME_BYTES:
                drip.sendall(bytes([byte]))
                drip.settimeout(min(1.0, target.left) or 0.001)
                with contextlib.suppress(TimeoutError):
                    if not drip.recv(1):
                        break
                if not target.left:
                    break
        time.sleep(min(PAUSE_SECONDS, target.left))


def _answers(ended: Sequence[object], sent: Counter[str]) -> None:
    for each in ended:
        status = getattr(each, "status", None)
        sent["unanswered" if status is None else f"status {status}"] += 1


@dataclass(frozen=True)
class Attack:
    """An attack: which hole it tries, and its threads, each of which has a connection at a time.

    With `scrapes` it is on the metrics port too. With `by_proxy`, it is the proxy's to keep latency: without one, only
    memory and what is after the attack are held to the goals. With `https` it is on the HTTPS port instead
    of gRPC's.
    """

    hole: str
    threads: tuple[tuple[Callable[[Target, Counter[str]], None], int], ...]
    scrapes: bool = False
    by_proxy: bool = False
    https: bool = False


ATTACKS = {
    "tiny": Attack("memory by tiny calls", ((tiny, 4),)),
    "nothing": Attack("work by submissions of two bytes", ((nothing, 4),)),
    "unread": Attack("memory by answers that nobody takes", ((unread, 4),)),
    "unfinished": Attack("calls without their end", ((unfinished, 5),)),
    "locked": Attack("calls of headers only", ((locked, 2),)),
    "resets": Attack("rapid reset", ((resets, 2),), by_proxy=True),
    "filling": Attack("a round filled for nothing", ((filling, 1),)),
    "silent": Attack("silent and dripping connections", ((silent, 1), (dripping, 8)), scrapes=True),
    "https-calls": Attack("HTTPS: work by submissions of two bytes", ((https_attacks.calls, 4),), https=True),
    "https-unread": Attack("HTTPS: answers that nobody takes", ((https_attacks.unread, 4),), https=True),
    "https-unfinished": Attack("HTTPS: calls without their end", ((https_attacks.unfinished, 4),), https=True),
    "https-heads": Attack(
        "HTTPS: heads that drip, and huge ones", ((https_attacks.heads, 3), (https_attacks.huge, 2)), https=True
    ),
    "https-rapid": Attack("HTTPS: connections opened and closed", ((https_attacks.rapid, 4),), https=True),
    "updates": Attack("changes of keys, and now and then a byte", ((tls_attacks.updates_and_bytes, 8),)),
    "https-updates": Attack("HTTPS: changes of keys without end", ((tls_attacks.updates, 8),), https=True),
    "https-records": Attack(
        "HTTPS: tiny and empty records, and warnings",
        ((tls_attacks.tiny, 3), (tls_attacks.empty, 3), (tls_attacks.alerts, 2)),
        https=True,
    ),
    "https-hellos": Attack("HTTPS: handshakes in records of a byte", ((tls_attacks.hellos, 8),), https=True),
    "https-silent": Attack("HTTPS: silent after TLS is agreed on", ((tls_attacks.silent, 8),), https=True),
    "https-partial": Attack("HTTPS: records without their end", ((tls_attacks.partial, 8),), https=True),
    "https-handshakes": Attack("HTTPS: TLS that is never agreed on", ((https_attacks.handshakes, 2),), https=True),
}
"""All of them by name."""


def run(attack: Attack, target: Target) -> Counter[str]:
    """Run an attack's threads until the target's time is over; return what they sent and what came back."""
    counts: list[Counter[str]] = []
    threads = []
    for work, copies in attack.threads:
        for _ in range(copies):
            counts.append(Counter())
            threads.append(threading.Thread(target=work, args=(target, counts[-1]), daemon=True))
    for thread in threads:
        thread.start()
    for thread in threads:
        # What blocks in the network beyond its time ends with the process.
        thread.join(target.left + 2.0)
    return sum(counts, Counter())


def main(arguments: Sequence[str] | None = None) -> int:
    """Attack, print what was done, and return the exit status."""
    parser = argparse.ArgumentParser(description="Attack a shuffler on loopback, for a time.")
    parser.add_argument("name", choices=ATTACKS)
    parser.add_argument("--address", required=True, help="host:port that devices call, by gRPC or by HTTPS")
    parser.add_argument("--authority", required=True, type=Path, help="certificate of the TLS authority")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--source", default="127.0.0.2", help="address to come from")
    parser.add_argument("--metrics", default="", help="host:port of the metrics, for `silent`")
    parser.add_argument("--task", type=Path, help="file of a signed task that admits whoever comes, for `filling`")
    chosen = parser.parse_args(arguments)
    if not parted(chosen.address)[0].startswith("127."):
        parser.error(f"{chosen.address} is not on loopback; nothing else is attacked")
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    until = time.monotonic() + chosen.seconds
    alpn = () if ATTACKS[chosen.name].https else ("h2",)
    target = Target(chosen.address, TLS(chosen.authority), chosen.source, until, chosen.metrics, chosen.task, alpn)
    # An empty line says that it begins.
    print(flush=True)
    counts = run(ATTACKS[chosen.name], target)
    print(json.dumps({**counts, CPU: round(1000 * time.process_time())}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
