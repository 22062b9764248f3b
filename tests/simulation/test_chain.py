"""A chain of three shufflers as real processes: killed at system calls it counts everyone once, and all is proven."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import pytest
from simulation import disk
from simulation.test_processes import DEVICES, everything_counts, library

from hubbub.client.privacy.certificates import read_certificate
from hubbub.deploy.local.pipeline import LocalPipeline
from hubbub.deploy.local.process import ServiceError
from hubbub.protos.identity.keys import Identity
from hubbub.protos.task.task import Draft, Privacy, Schedule
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.questions.number import Number
from hubbub.verification.certificate import Pins, VerificationError, verify
from support.cli import hubbub
from support.metrics_scrape import scrape
from support.samples import FEW

pytestmark = pytest.mark.slow

__all__ = ["library"]

POINTS = (
    ("hop-2", "before sync 2"),
    ("hop-2", "after sync 9"),
    ("hop-2", "before write 20"),
    ("hop-3", "after sync 5"),
    ("hop-3", "before send 8"),
    ("hop-3", "after send 9"),
)
"""Who is killed in each round, and where."""

DUMMIES = 40


def draft() -> Draft:
    schedule = Schedule(int(time.time()), length=3600, grace=86_400, rounds=len(POINTS), close="operator")
    privacy = Privacy(epsilon=8.0, delta=1e-2, epsilon_local=16.0, dummies=DUMMIES, large_delta=FEW)
    queries = (Histogram("theme", ("light", "dark")), Number("session", 0.0, 60.0, "minutes", optional=True))
    return Draft("kiosks", schedule, 100, privacy, queries)


async def test_killed_anywhere_a_chain_counts_everyone_once_and_proves_what_each_shuffler_did(
    library: Path, tmp_path: Path
) -> None:
    async with LocalPipeline(draft(), tmp_path / "pipeline", hops=3) as running:
        deaths = []
        for number, (party, point) in enumerate(POINTS):
            data = running.folder.of(party) / "data"
            await running.stop(party)
            running.services[party].environment = disk.environment(library, data, tmp_path / "log", DISK_KILL=point)
            with contextlib.suppress(ServiceError):
                await running.start(party)
            running.services[party].environment = {}
            deaths.append(await everything_counts(running, number))
        assert deaths == [1] * len(POINTS)
        certificate = (await running.results(len(POINTS) - 1)).certificate
        for party in ("hop-2", "hop-3"):
            metrics = await scrape(running.services[party].addresses["metrics"])
            assert metrics.value("hubbub_hop_batches", state="passed_on") == 2 * len(POINTS)
        named = running.task.task.identities
    _check_certificate(certificate, Pins(named.operator, named.shuffler, named.analyzer, named.hops))
    assert read_certificate(certificate, running.task.task).round == len(POINTS) - 1
    _check_command(certificate, running, tmp_path)


def _check_certificate(certificate: bytes, pins: Pins) -> None:
    verified = verify(certificate, pins)
    assert verified.pinned
    assert list(verified.fingerprints) == ["operator", "shuffler", "analyzer", "hop-2", "hop-3"]
    for record in verified.records:
        numbers = [(hop.position, hop.received, hop.released) for hop in record.hops]
        assert numbers == [(position, DEVICES + DUMMIES, DEVICES + DUMMIES) for position in (2, 3)]
    # A bit of every 31st byte, each bit in turn: what a certificate of one round does alike is tried at all of them.
    for place in range(0, len(certificate), 31):
        changed = bytearray(certificate)
        changed[place] ^= 1 << place // 31 % 8
        with pytest.raises(VerificationError):
            verify(bytes(changed), pins)


def _check_command(certificate: bytes, running: LocalPipeline, folder: Path) -> None:
    path, stranger = folder / "certificate.json", folder / "stranger.pub.pem"
    path.write_bytes(certificate)
    Identity.generate().save_public(stranger)
    trust = running.folder.trust_of("operator")
    keys = [
        each for role in ("operator", "shuffler", "analyzer") for each in (f"--{role}-key", trust / f"{role}.pub.pem")
    ]
    hops = [trust / "hop-2.pub.pem", trust / "hop-3.pub.pem"]
    pinned = hubbub("verify", path, *keys, "--hop-key", hops[0], "--hop-key", hops[1], "--json")
    assert pinned.json["signers_pinned"] is True
    assert [row["words"].split(";")[0] for row in pinned.json["ladder"] if row["covers"] == "round_total"][-2:] == [
        "if the first shuffler is honest",
        "if only the person's own device is honest",
    ]
    assert hubbub("verify", path, *keys, "--json").json["signers_pinned"] is False
    for wrong in ([hops[1], hops[0]], [hops[0]], [hops[0], stranger]):
        given = [word for each in wrong for word in ("--hop-key", each)]
        refused = hubbub("verify", path, *keys, *given)
        assert refused.status == 1
        assert "its hops are" in refused.err
