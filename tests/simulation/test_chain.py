"""A chain of three shufflers as real processes: killed at system calls it counts everyone once, and all is proven."""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace
from pathlib import Path

import pytest
from simulation import disk
from simulation.test_processes import DEVICES, everything_counts, library

from hubbub.client.privacy.certificates import read_certificate
from hubbub.deploy.local.pipeline import LocalPipeline
from hubbub.deploy.local.process import ServiceError
from hubbub.protos.identity.keys import Identity
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.task import Draft, Privacy
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.questions.number import Number
from hubbub.verification.certificate import Pins, VerificationError, verify
from support.cli import hubbub
from support.metrics_scrape import scrape
from support.samples import FEW

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


# tests/unit/shuffler/hop/test_chain.py breaks a hop at each call; the test of noise below kills a chain's shufflers.
@pytest.mark.exhaustive
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


async def test_every_shuffler_of_a_chain_adds_noise_whoever_is_killed_and_the_certificate_is_proven(
    library: Path, tmp_path: Path
) -> None:
    noisy = replace(
        draft(),
        privacy=replace(draft().privacy, dummies=0),
        noise="always",
        schedule=replace(draft().schedule, rounds=1),
    )
    async with LocalPipeline(noisy, tmp_path / "pipeline", hops=3) as running:
        party, point = "hop-2", "before sync 9"
        await running.stop(party)
        data, service = running.folder.of(party) / "data", running.services[party]
        service.environment = disk.environment(library, data, tmp_path / "log", DISK_KILL=point)
        with contextlib.suppress(ServiceError):
            await running.start(party)
        service.environment = {}
        assert await everything_counts(running, 0) == 1
        certificate = (await running.results(0)).certificate
        task = running.task.task
    assert [query.shufflers for query in task.queries] == [3, 3]
    verified = verify(
        certificate, Pins(*(getattr(task.identities, name) for name in ("operator", "shuffler", "analyzer")))
    )
    for query, record, stated in zip(task.queries, verified.records, verified.content["queries"], strict=True):
        least, most = query.noise_range or (0, 0)
        sums = [record.dummies, *(hop.dummies for hop in record.hops)]
        assert all(least <= each <= most for each in sums)
        assert stated["dummies"] == record.added == sum(sums)
        assert record.envelopes == DEVICES + record.added
        assert [hop.received for hop in record.hops] == [DEVICES + sum(sums[:place]) for place in (1, 2)]
    path = tmp_path / "certificate.json"
    path.write_bytes(certificate)
    proven = hubbub("verify", path, "--rigorous", "--json")
    assert proven.status == 0
    rows = [row["words"] for row in proven.json["ladder"] if row["member"] == "epsilon_upper_alone"]
    assert rows
    assert all(
        words == "if one of the 3 shufflers is honest; everybody else may lie and work together, the analyzer "
        "too: the honest shuffler's noise hides each person"
        for words in rows
    )
    assert "hop-3 received" in hubbub("verify", path).out


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
        assert "hops are" in refused.err
