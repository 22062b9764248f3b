"""Identities, a task with both kinds of query, and a TLS authority, all made afresh."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hubbub.deploy.pki.authority import Authority
from hubbub.protos.identity.keys import Identity, Role
from hubbub.protos.task.admission import OPEN, AdmissionPolicy
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.task import Identities, Privacy, Task, is_large
from hubbub.protos.transport.channels import TLS
from hubbub.queries.query import Query
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.questions.number import Number
from support.krr_queries import krr_query

START = 1_767_225_600
"""2026-01-01T00:00:00Z: when sample tasks start."""

HALF = 2**31
"""γ = 1/2."""

FEW = "few devices, none of them anybody's"
"""Why a task of a test wants a large δ."""

MOST = 1_000_000
"""The most reports of a round of a sample task."""

LATER_DRAFT = """
[task]
name = "kiosks"
start = 2096-01-01T00:00:00Z
length = "24h"
minimum_reports = 100

[privacy]
epsilon = 10
delta = 1e-6

[[query]]
name = "theme"
kind = "histogram"
categories = ["light", "dark"]
"""
"""A draft of one histogram, as a person writes it; it begins when nobody runs this any more."""


@dataclass(frozen=True)
class Parties:
    """The identities, with their private keys; `hops` are the shufflers behind the first one."""

    operator: Identity
    shuffler: Identity
    analyzer: Identity
    hops: tuple[Identity, ...] = ()

    @classmethod
    def generate(cls, hops: int = 0) -> Parties:
        behind = tuple(Identity.generate() for _ in range(hops))
        return cls(Identity.generate(), Identity.generate(), Identity.generate(), behind)

    def of(self, role: Role) -> Identity:
        return {Role.OPERATOR: self.operator, Role.SHUFFLER: self.shuffler, Role.ANALYZER: self.analyzer}[role]

    @property
    def public(self) -> Identities:
        hops = tuple(hop.public for hop in self.hops)
        return Identities(self.operator.public, self.shuffler.public, self.analyzer.public, hops)


QUERIES = (
    krr_query(Histogram("carrier", ("AA", "B6", "UA")), HALF),
    krr_query(Number("delay", -30.0, 180.0, "minutes", optional=True), HALF, levels=7),
)


def sample_task(
    parties: Parties,
    *,
    name: str = "flights",
    minimum_reports: int = 20,
    schedule: Schedule | None = None,
    queries: tuple[Query, ...] = QUERIES,
    privacy: Privacy | None = None,
    admission: AdmissionPolicy = OPEN,
    maximum_reports: int = MOST,
) -> Task:
    """A task with a histogram and an optional sum. The default privacy is weak, so that small minimums support it."""
    schedule = schedule or Schedule(START, length=3600, grace=60, rounds=3)
    privacy = privacy or Privacy(epsilon=10.0, delta=1e-2, epsilon_local=20.0)
    if is_large(privacy.delta, minimum_reports):
        privacy = replace(privacy, large_delta=FEW)
    parts = name, schedule, minimum_reports, privacy, queries, parties.public
    return Task(*parts, admission, maximum_reports)


def changed(task: Task, **changes: Any) -> Task:
    """The task with these changes, and a reason for its δ where that is large."""
    other = replace(task, **changes)
    large = is_large(other.privacy.delta, other.minimum_reports)
    return replace(other, privacy=replace(other.privacy, large_delta=FEW)) if large else other


def signed(task: Task, parties: Parties) -> SignedTask:
    """The task with both signatures."""
    return SignedTask(task).signed_by(parties.operator).signed_by(parties.shuffler)


def make_tls(folder: Path, *roles: str) -> dict[str, TLS]:
    """An authority and a loopback certificate for each role."""
    folder.mkdir(parents=True, exist_ok=True)
    authority = Authority.generate()
    authority.save_certificate(folder / "authority.pem")
    parties = {}
    for role in roles:
        certificate, key = folder / f"{role}.pem", folder / f"{role}.key"
        authority.issue(role, ["localhost", "127.0.0.1"], certificate, key)
        parties[role] = TLS(folder / "authority.pem", certificate, key)
    return parties
