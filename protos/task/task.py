"""Defines a task: the questions, their privacy, and who signs each round.

A `Draft` is what a person writes in TOML. `hubbub plan` makes a `Task` of it: it adds the exact randomizer of each
query, with probabilities as whole numbers over 2³², and the parties' identities. The operator and the shuffler then
sign the task. Its id is the SHA-256 of its canonical bytes.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

from hubbub.protos.errors import TaskError
from hubbub.protos.escaping import hex_repr
from hubbub.protos.identity.documents import canonical
from hubbub.protos.identity.formats import TASK
from hubbub.protos.identity.keys import CORE_ROLES, Role
from hubbub.protos.identity.lineage import Lineage, leading
from hubbub.protos.identity.successions import Succession, SuccessionError
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.sealing.envelope import FIRST_HOP, inner_bytes, outer_bytes
from hubbub.protos.sealing.suites import DEFAULT, Suite, suite_named
from hubbub.protos.task.about import NOTHING, About
from hubbub.protos.task.admission import ENROLLED, AdmissionPolicy
from hubbub.protos.task.asked_question import Asked, asked_by
from hubbub.protos.task.schedule import Schedule, prepared_from
from hubbub.protos.transparency_log.policy import LogPolicy
from hubbub.queries.longitudinal.over_rounds import Repeated
from hubbub.queries.query import Query
from hubbub.queries.questions.question import Question

MAXIMUM_REPORTS = 10**12
"""Most reports of one round; the accountant's bounds are checked up to here."""

USUAL_MAXIMUM = 1_000_000
"""The most reports of a round if a draft names none and ten times its minimum is less: about 100 MB of disk."""

DELTA_SHARE = Fraction(1, 10)
"""The largest δ without a stated reason, as a share of 1 / minimum_reports. At δ = 1 / minimum_reports, publishing the
answers of one randomly chosen person of a round would be within the guarantee for any ε."""

MAXIMUM_DUMMIES = 10_000_000
"""Most uniform reports that the shuffler adds to a query's batch; sealing them takes it about twenty minutes. It is
also the most that all shufflers of a chain together add on average as noise."""

MAXIMUM_ADDED = 2 * MAXIMUM_DUMMIES
"""More reports are never added to a batch: a draw of noise is at most twice its mean."""

MAXIMUM_HOPS = 7
"""Most shufflers after the first one: for each of them, a device seals every answer once more."""

FIRST_SHUFFLER = FIRST_HOP - 1
"""The position in the chain of the shuffler that devices submit to."""


def hop_name(position: int) -> str:
    """Return the name of the shuffler in that position of the chain in folders, certificates and texts."""
    return f"hop-{position}"


@dataclass(frozen=True)
class Privacy:
    """The guarantee to one person for all reports of a round: (ε, δ), the cap on ε_local, the honest share.

    `epsilon_total` caps ε at the same δ over all rounds of the task, composed at the minimum reports; None means that
    there is no cap. The shuffler adds `dummies` uniform reports to each query's batch of each round. `large_delta` is
    the reason, in words, why δ is larger than `largest_delta`; without one, δ cannot be.
    """

    epsilon: float
    delta: float
    epsilon_local: float = 8.0
    honest_share: float = 1.0
    epsilon_total: float | None = None
    dummies: int = 0
    large_delta: str | None = None


def largest_delta(reports: int) -> float:
    """Return the largest δ without a stated reason for rounds of at least that many `reports`: 0.1 / `reports`."""
    nearest = float(DELTA_SHARE / reports)
    # The result must not be refused itself: the nearest float may be above the limit.
    return math.nextafter(nearest, 0.0) if is_large(nearest, reports) else nearest


def is_large(delta: float, reports: int) -> bool:
    """Return whether δ, read as its decimal text, is above `largest_delta`."""
    return Fraction(str(delta)) * reports > DELTA_SHARE


@dataclass(frozen=True)
class Identities:
    """The raw Ed25519 public keys (32 bytes each) of the parties, no two of them the same.

    `hops` are the shufflers after the first one, in the order of the chain.

    Raises:
        TaskError: if two parties have one key, or there are more than `MAXIMUM_HOPS` hops.
    """

    __repr__ = hex_repr

    operator: bytes
    shuffler: bytes
    analyzer: bytes
    hops: tuple[bytes, ...] = ()

    def __post_init__(self) -> None:
        if len(self.hops) > MAXIMUM_HOPS:
            raise TaskError(f"{len(self.hops)} hops are named behind the shuffler; name at most {MAXIMUM_HOPS}")
        # A party that is both shuffler and analyzer could open every envelope and see the sender of each report.
        for (one, its), (other, others) in itertools.combinations(self.named.items(), 2):
            if its == others:
                raise TaskError(
                    f"{one} and {other} have the same key, but must be two parties; each makes its own with `hubbub "
                    "identity`"
                )

    @property
    def named(self) -> dict[str, bytes]:
        """All identities by the parties' names; the second shuffler's name is hop-2."""
        hops = {hop_name(position): identity for position, identity in enumerate(self.hops, FIRST_HOP)}
        return {**{role.value: self.of(role) for role in CORE_ROLES}, **hops}

    def of(self, role: Role) -> bytes:
        """The identity of one of `CORE_ROLES`."""
        return {Role.OPERATOR: self.operator, Role.SHUFFLER: self.shuffler, Role.ANALYZER: self.analyzer}[role]


@dataclass(frozen=True)
class Draft:
    """A task as a person writes it, checked. `suite` names the HPKE suite of both layers of its envelopes.

    `maximum_reports` is the most of a round; None leaves it to planning (`most_reports`). `noise` says whether the
    shufflers add noise: planning draws up its law, which the task states. `errors` are the standard errors that queries
    must reach, by name: planning then takes the least ε for them, up to that in `privacy`. `shufflers` is how many will
    permute each batch. It is not written in the draft: the keys of hops, if there are any, say it. `log` is the
    transparency log in which the task must be, None if none is demanded.
    """

    name: str
    schedule: Schedule
    minimum_reports: int
    privacy: Privacy
    questions: tuple[Question, ...]
    admission: AdmissionPolicy = ENROLLED
    suite: str = DEFAULT.name
    maximum_reports: int | None = None
    noise: Literal["none", "auto", "always"] = "none"
    errors: tuple[tuple[str, float], ...] = ()
    shufflers: int = 1
    about: About = NOTHING
    log: LogPolicy | None = None

    @property
    def most_reports(self) -> int:
        """The most reports of a round: as stated, otherwise ten times the minimum, and at least `USUAL_MAXIMUM`."""
        usual = min(MAXIMUM_REPORTS, max(USUAL_MAXIMUM, 10 * self.minimum_reports))
        return usual if self.maximum_reports is None else self.maximum_reports

    @property
    def horizon(self) -> int | None:
        """How many rounds are promised together: all, if a question is longitudinal; otherwise None."""
        return self.schedule.rounds if any(isinstance(each, Repeated) for each in self.questions) else None


@dataclass(frozen=True)
class Task:
    """A task as devices and services run it.

    `maximum_reports` are the most of a round, and `log` is as in a `Draft`. `lineage` has the identities that succeed
    those that the task names (`followed`), if any do; it is no part of the task. Nor is `ends_after`: the round after
    which the deployment's feed (`protos.task.feed`) ends the task, -1 for none. Each query gets the number of
    `shufflers`, as each of them adds noise if there is any.

    Raises:
        TaskError: if its second authority is one of its parties, if it has noise beside uniform dummies, if its
            shufflers add more noise on average than `MAXIMUM_DUMMIES`, or if a number that is asked by digits does not
            have all of them.
    """

    name: str
    schedule: Schedule
    minimum_reports: int
    privacy: Privacy
    queries: tuple[Query, ...]
    identities: Identities
    admission: AdmissionPolicy
    maximum_reports: int
    suite: str = DEFAULT.name
    about: About = NOTHING
    log: LogPolicy | None = None
    lineage: Lineage | None = field(default=None, compare=False, repr=False)
    ends_after: int | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.admission.second_authority in (self.identities.operator, self.identities.shuffler):
            raise TaskError("the second authority is the operator or the shuffler; name the key of somebody else")
        noisy = [query.name for query in self.queries if query.noise is not None]
        # A shuffler draws noise in place of dummies, so their number must not count.
        if self.privacy.dummies and noisy:
            raise TaskError(
                f"the task has {self.privacy.dummies} uniform dummies, and noise for {noisy[0]}; noise hides more: "
                "leave the dummies out"
            )
        # Frozen: this is still the making of the task, and no query of it was given out.
        object.__setattr__(self, "queries", tuple(replace(each, shufflers=self.shufflers) for each in self.queries))
        for query in self.queries:
            if query.expected_noise > MAXIMUM_DUMMIES:
                raise TaskError(self._too_much_noise(query))
        # Computed at once, so that no task is without its digits.
        self.asked  # noqa: B018

    def _too_much_noise(self, query: Query) -> str:
        several = self.shufflers > 1
        who, fewer = (f"{self.shufflers} shufflers", "fewer hops or ") if several else ("the shuffler", "")
        return (
            f"{query.name}: its noise is {query.expected_noise:,} reports on average, by {who}, and at most "
            f"{MAXIMUM_DUMMIES:,} are added to a batch; plan the task with {fewer}fewer answers, or leave the noise out"
        )

    @cached_property
    def asked(self) -> tuple[Asked, ...]:
        """What people are asked, each question with its queries: a number that is asked by digits has several."""
        return asked_by(self.queries)

    @cached_property
    def canonical(self) -> bytes:
        """The bytes that are signed and hashed."""
        return canonical(task_content(self))

    @cached_property
    def id(self) -> bytes:
        """SHA-256 (32 bytes) of the canonical bytes."""
        return hashlib.sha256(self.canonical).digest()

    @property
    def last_round(self) -> int:
        """The last round that takes submissions: the schedule's, or an earlier one if a feed ends the task after it."""
        last = self.schedule.rounds - 1
        return last if self.ends_after is None else min(last, self.ends_after)

    @property
    def horizon(self) -> int | None:
        """How many rounds are promised together: all, if a query is longitudinal; otherwise None."""
        return self.schedule.rounds if any(query.horizon is not None for query in self.queries) else None

    @property
    def shufflers(self) -> int:
        """How many shufflers permute each batch: the first one and the hops."""
        return 1 + len(self.identities.hops)

    @property
    def admission_statement(self) -> dict[str, str]:
        """A certificate's member `admission`: the mode, and what it means for privacy, in words."""
        return self.admission.statement(noise=all(query.noise is not None for query in self.queries))

    @cached_property
    def inner_bytes(self) -> tuple[int, ...]:
        """Lengths of the inner envelopes, in the order of the queries: each is as long as its randomizer's reports."""
        return self.arriving_bytes(FIRST_HOP)

    @cached_property
    def counted_bytes(self) -> tuple[int, ...]:
        """Lengths of the envelopes as the analyzer gets them: every hop has taken its layer off."""
        return self.arriving_bytes(FIRST_HOP + len(self.identities.hops))

    def arriving_bytes(self, position: int) -> tuple[int, ...]:
        """Lengths of the envelopes as they arrive at a position of the chain; behind the last hop is the analyzer's."""
        layers = 1 + FIRST_HOP + len(self.identities.hops) - position
        return tuple(inner_bytes(query.report_bytes, self.hpke, layers) for query in self.queries)

    @cached_property
    def outer_bytes(self) -> int:
        """Length of the outer envelope of every submission."""
        return outer_bytes(self.inner_bytes, self.hpke)

    @cached_property
    def hpke(self) -> Suite:
        """The suite of all keys and envelopes of this task.

        Raises:
            SuiteError: if this version of hubbub does not know the task's.
        """
        return suite_named(self.suite)

    def dummies_within(self, query: int, position: int | None = None) -> tuple[int, int]:
        """The fewest and the most dummies that the shuffler in that position adds to a batch of that query.

        That is the task's number, which only the first shuffler adds, or what its noise can add. Without a `position`
        it is what all shufflers add together.
        """
        noise = self.queries[query].noise_range
        if noise is None:
            return (self.privacy.dummies if position in (None, FIRST_SHUFFLER) else 0,) * 2
        draws = self.shufflers if position is None else 1
        return draws * noise[0], draws * noise[1]

    def dummies_differ(self, query: int, dummies: int, position: int | None = None) -> str | None:
        """Return in words why the shuffler in that position cannot have added so many dummies; None if it can.

        Without a `position` it is about all shufflers together.
        """
        least, most = self.dummies_within(query, position)
        if least <= dummies <= most:
            return None
        limits = f"{least} in every batch" if least == most else f"from {least} to {most} in a batch of this query"
        if position in (None, FIRST_SHUFFLER):
            return f"the batch has {dummies} dummies, but task {self.name} has {limits}"
        return (
            f"{hop_name(position or 0)} added {dummies} dummies to the batch, but in task {self.name} it adds {limits}"
        )

    def query_index(self, name: str) -> int:
        """The place of a query in the task.

        Raises:
            TaskError: if the task has no query of that name, naming those it has.
        """
        names = [query.name for query in self.queries]
        if name not in names:
            raise TaskError(f"task {self.name} has no query {name!r}; it asks {', '.join(names)}")
        return names.index(name)

    def asked_named(self, name: str) -> Asked:
        """The question of that name, as people are asked.

        Raises:
            TaskError: if the task asks no question of that name, naming those it asks.
        """
        for each in self.asked:
            if each.name == name:
                return each
        names = ", ".join(each.name for each in self.asked)
        raise TaskError(f"task {self.name} has no query {name!r}; it asks {names}")


def ended(task: Task) -> Refusal:
    """Return the refusal of a round after the one with which the feed ended its task."""
    last = "before its first round" if task.last_round < 0 else f"after round {task.last_round}"
    return Refusal(Reason.TASK_ENDED, f"task {task.name} has ended {last}, and later rounds take nothing; stop sending")


def signers(task: Task, round_number: int) -> Identities:
    """Return the identities that sign everything of a round: those in force when its keys may first be made."""
    lineage = task.lineage
    if lineage is None:
        return task.identities
    moment = prepared_from(task.schedule, round_number)
    of_round = {role.value: lineage.at(role, task.identities.of(role), moment) for role in CORE_ROLES}
    # A hop has one identity for the whole of a task.
    return Identities(**of_round, hops=task.identities.hops)


def connected(task: Task, successions: Iterable[Succession]) -> list[Succession]:
    """Return the successions that lead to or from the identities of a task; others are of other deployments."""
    return leading(successions, ((role, task.identities.of(role)) for role in CORE_ROLES))


def followed(task: Task, successions: Iterable[Succession]) -> Task:
    """Return the same task, with the successors of the identities that it names.

    Raises:
        SuccessionError: if the successions do not make one chain from them.
    """
    successions = list(successions)
    if not successions:
        return task
    if {each.new for each in successions} & set(task.identities.hops):
        raise SuccessionError("a succession names the key of one of the task's hops; each party makes its own key")
    known = {role: task.identities.of(role) for role in CORE_ROLES}
    return replace(task, lineage=Lineage.of(known, successions))


def identities_content(identities: Identities) -> dict[str, Any]:
    """Return identities as JSON."""
    hops = [hop.hex() for hop in identities.hops]
    return {"hops": hops, **{role.value: identities.of(role).hex() for role in CORE_ROLES}}


def task_content(task: Task) -> dict[str, Any]:
    """Return a task as JSON."""
    schedule, privacy = task.schedule, task.privacy
    # A task that demands no log has no such member.
    demanded = {} if task.log is None else {"log": task.log.content()}
    return {
        **demanded,
        "about": task.about.content(),
        "admission": task.admission.content(),
        "format": TASK.format,
        "identities": identities_content(task.identities),
        "maximum_reports": task.maximum_reports,
        "minimum_reports": task.minimum_reports,
        "name": task.name,
        "privacy": {
            "delta": privacy.delta,
            "dummies": privacy.dummies,
            "epsilon": privacy.epsilon,
            "epsilon_local": privacy.epsilon_local,
            "epsilon_total": privacy.epsilon_total,
            "honest_share": privacy.honest_share,
            "large_delta": privacy.large_delta,
        },
        "queries": [query.content() for query in task.queries],
        "schedule": {
            "close": schedule.close,
            "grace": schedule.grace,
            "length": schedule.length,
            "rounds": schedule.rounds,
            "start": datetime.fromtimestamp(schedule.start, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        },
        "suite": task.suite,
    }
