"""Plays a task's worst case on services of its own; what is learned is compared with what is certified.

Everyone's answer is fixed but one: the victim's is one of two, as a fair coin of the operating system says. The
attacker is the analyzer: it sees every report that is opened, in its order, and the certificate states what it may
learn. What it does learn is bounded from below with confidence (`inference`).
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from hubbub.accountant.certificate.minimum import parts_at_minimum
from hubbub.accountant.certificate.terms import Terms
from hubbub.accountant.composition import compose
from hubbub.deploy.audit.harness import (
    UNDER_MINIMUM_SECONDS,
    AuditHarness,
    AuditRound,
    RoundOutcome,
    TooSlow,
    epsilon_in,
)
from hubbub.deploy.audit.inference import AttackResult, attack, most_visible, rounds_to_show
from hubbub.deploy.audit.participants import Participants, Victim
from hubbub.deploy.audit.scores import ScoredRound, Scores, scored
from hubbub.deploy.audit.worst_case import WorstCase, worst_case_of
from hubbub.deploy.local.pipeline import LocalPipeline
from hubbub.protos.errors import UsageError
from hubbub.protos.identity.keys import Role
from hubbub.protos.task.admission import ENROLLED, OPEN
from hubbub.protos.task.draft import MINIMUM_DELTA
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.task import Draft, Identities, Task, is_large
from hubbub.verification.certificate import Pins, verify

MOST_EPSILON = 100.0
"""Largest ε that a task may state."""

AUDITED = "an audit's own task, which is asked of nobody"
"""Why the task that is played may have a large δ."""

UNDER_MINIMUM_SHARE = 8
"""One round in so many is played under the minimum, unless it was said how many are."""

LEAST_ROUNDS = 8
"""Fewest rounds: two with each answer to choose by, and two to judge by."""


@dataclass(frozen=True)
class AuditOptions:
    """How to audit: how many rounds of so many people, how many under the minimum, at which δ and confidence.

    None is the task's own: its minimum of reports, and its δ; for `under_minimum`, one in `UNDER_MINIMUM_SHARE`.
    """

    rounds: int = 400
    participants: int | None = None
    delta: float | None = None
    confidence: float = 0.999
    under_minimum: int | None = None

    @property
    def rounds_under_minimum(self) -> int:
        """How many rounds are played under the minimum."""
        return self.rounds // UNDER_MINIMUM_SHARE if self.under_minimum is None else self.under_minimum


@dataclass(frozen=True)
class AuditParts:
    """What tests replace with something broken: programs in the place of services, the victim's device, the people."""

    programs: Mapping[Role, Sequence[str]] = field(default_factory=dict)
    victim: type[Victim] = Victim
    participants: type[Participants] = Participants


@dataclass(frozen=True)
class AuditedAttack:
    """An attack on rounds of one kind: what it showed, the scores it was made from, and how many were opened."""

    under_minimum: bool
    shown: AttackResult
    scores: Scores
    opened: int


@dataclass(frozen=True)
class Audit:
    """What an audit found of the task `name`. `task` is what was played, `certificate` the one that states most."""

    name: str
    task: SignedTask
    options: AuditOptions
    certified: float
    certificate: bytes
    visible: float
    attacks: tuple[AuditedAttack, ...]

    @property
    def attained(self) -> float:
        """The ε that the rounds show, with the confidence asked for."""
        return max(each.shown.epsilon for each in self.attacks)

    @property
    def released_under_minimum(self) -> int:
        """How many rounds under the minimum were opened."""
        return sum(each.opened for each in self.attacks if each.under_minimum)

    @property
    def consistent(self) -> bool:
        """Whether nothing contradicts the certificate: no larger ε was shown, and no round under the minimum opened."""
        return self.attained <= self.certified and not self.released_under_minimum


def check_single_rounds(asked: Draft | Task) -> None:
    """Return only if the rounds of a task stand for themselves.

    Raises:
        UsageError: if some hang together.
    """
    if asked.horizon is not None:
        raise UsageError(
            f"task {asked.name} asks a question whose {asked.horizon} rounds hang together, an audit plays rounds by "
            "themselves; leave that question out"
        )


def audited_task(task: Task, options: AuditOptions) -> Task:
    """Return the task that is played: the same queries, with so many people, at that δ, promising what that gives.

    Everybody is honest, so that a round of so many reports is what is certified; a budget is for many rounds.

    Raises:
        UsageError: if an option is out of its limits, rounds of the task hang together, or one of so many people
            gives no ε that a task may state.
    """
    check_single_rounds(task)
    if not 0 < options.confidence < 1:
        raise UsageError(f"--confidence is {options.confidence}; give a number above 0 and below 1, such as 0.999")
    if options.delta is not None and not MINIMUM_DELTA <= options.delta < 1:
        raise UsageError(f"--delta is {options.delta}; it must be at least {MINIMUM_DELTA:g} and below 1")
    participants = task.minimum_reports if options.participants is None else options.participants
    delta = task.privacy.delta if options.delta is None else options.delta
    privacy = replace(task.privacy, epsilon=MOST_EPSILON, delta=delta, honest_share=1.0, epsilon_total=None)
    # Whoever is admitted otherwise is enrolled here, by the audit's own operator alone.
    admission = OPEN if task.admission.assumed else ENROLLED
    most = max(task.maximum_reports, participants)
    reason = AUDITED if most is not None and is_large(delta, participants) else None
    privacy = replace(privacy, large_delta=reason)
    played = replace(task, minimum_reports=participants, privacy=privacy, admission=admission, maximum_reports=most)
    found = compose(parts_at_minimum(Terms.of(played), [query.mechanism for query in task.queries]), delta)
    if not found.epsilon_upper < MOST_EPSILON:
        raise UsageError(
            f"{participants} people give ε = {found.epsilon_upper:g}, a task states less than {MOST_EPSILON:g}"
        )
    return replace(played, privacy=replace(privacy, epsilon=min(MOST_EPSILON, found.epsilon_upper * (1 + 1e-6))))


def check_options(task: Task, options: AuditOptions) -> None:
    """Return only if so many rounds could beat the certificate of the task that is played: else nothing is checked.

    Raises:
        UsageError: naming the option, and how many rounds would do.
    """
    full = options.rounds - options.rounds_under_minimum
    if options.rounds_under_minimum < 0 or full < LEAST_ROUNDS:
        limit = f"play {LEAST_ROUNDS} or more with all their people"
        raise UsageError(
            f"--rounds {options.rounds} with --under-minimum {options.rounds_under_minimum} leaves {full}; {limit}"
        )
    error, delta = _error(options), task.privacy.delta
    visible = most_visible(full, delta, error)
    if visible > task.privacy.epsilon:
        return
    needed = full = rounds_to_show(task.privacy.epsilon, delta, error)
    while needed - replace(options, rounds=needed).rounds_under_minimum < full:
        needed += 1
    raise UsageError(
        f"--rounds {options.rounds} can show ε = {visible:.4g} at most, whatever the services do, and the certificate "
        f"of {task.minimum_reports} people states {task.privacy.epsilon:.4g} at δ = {delta:g}: it could never be "
        f"beaten; ask for {needed} rounds, for a lower --confidence, or for more --participants"
    )


def _error(options: AuditOptions) -> float:
    """Return the error probability of the attack on rounds of one kind: the kinds share what the confidence leaves."""
    return (1 - options.confidence) / (2 if options.rounds_under_minimum else 1)


async def run(
    task: Task,
    options: AuditOptions,
    folder: Path,
    progress: Callable[[], None] = lambda: None,
    parts: AuditParts | None = None,
) -> Audit:
    """Audit a frozen task, `audited_task`'s, in a new folder; `progress` is called after every round.

    Raises:
        UsageError: if so many rounds could not beat the certificate.
        HubbubError: if a service fails.
    """
    check_options(task, options)
    playing = _AuditRun(task, folder, parts or AuditParts(), progress)
    full, pipeline = await playing.full(options.rounds - options.rounds_under_minimum)
    kinds = (
        [full, await playing.under_minimum(options.rounds_under_minimum)] if options.rounds_under_minimum else [full]
    )
    attacks = [_attacked(playing.worst, played, task.privacy.delta, _error(options)) for played in kinds]
    certificate = _checked(pipeline.task.task.identities, full)
    visible = most_visible(len(full), task.privacy.delta, _error(options))
    return Audit(task.name, pipeline.task, options, epsilon_in(certificate), certificate, visible, tuple(attacks))


@dataclass(frozen=True)
class _AuditRun:
    task: Task
    folder: Path
    parts: AuditParts
    progress: Callable[[], None]

    @cached_property
    def worst(self) -> tuple[WorstCase, ...]:
        return tuple(worst_case_of(query) for query in self.task.queries)

    async def full(self, rounds: int) -> tuple[tuple[RoundOutcome, ...], LocalPipeline]:
        """Play rounds with all their people; return what came of them, and the services, which are stopped."""
        harness = self._harness(
            "full", [AuditRound(is_first, self.task.minimum_reports) for is_first in _coins(rounds)]
        )
        async with harness.pipeline() as pipeline:
            return await harness.run(pipeline), pipeline

    async def under_minimum(self, rounds: int) -> tuple[RoundOutcome, ...]:
        """Play rounds of the victim alone, which are under the minimum.

        Raises:
            TooSlow: if the machine cannot keep to their schedule.
        """
        parts = [AuditRound(is_first, 1, under_minimum=True) for is_first in _coins(rounds)]
        for seconds in UNDER_MINIMUM_SECONDS[:-1]:
            with contextlib.suppress(TooSlow):
                return await self._under_minimum(parts, seconds)
        return await self._under_minimum(parts, UNDER_MINIMUM_SECONDS[-1])

    async def _under_minimum(self, parts: Sequence[AuditRound], seconds: int) -> tuple[RoundOutcome, ...]:
        harness = replace(self._harness(f"under-minimum-{seconds}", parts), seconds=seconds)
        async with harness.pipeline() as pipeline:
            return await harness.run(pipeline)

    def _harness(self, name: str, parts: Sequence[AuditRound]) -> AuditHarness:
        folder = self.folder / name
        folder.mkdir()
        given = self.parts
        return AuditHarness(
            self.task, self.worst, parts, folder, given.programs, given.victim, given.participants, self.progress
        )


def _attacked(worst: Sequence[WorstCase], played: Sequence[RoundOutcome], delta: float, error: float) -> AuditedAttack:
    scores = scored(worst, [ScoredRound(each.part.is_first, each.seen) for each in played])
    opened = sum(any(seen is not None for seen in each.seen) for each in played)
    return AuditedAttack(played[0].part.under_minimum, attack(scores, delta, error), scores, opened)


def _coins(rounds: int) -> list[bool]:
    """Return which rounds have a victim that holds its first answer: half of them, in a random order."""
    coins = [place % 2 == 0 for place in range(rounds)]
    secrets.SystemRandom().shuffle(coins)
    return coins


def _checked(identities: Identities, played: Sequence[RoundOutcome]) -> bytes:
    """Return the certificate that states most, verified with its signers pinned."""
    found = max((each.certificate for each in played if each.certificate is not None), key=epsilon_in)
    verify(found, Pins(identities.operator, identities.shuffler, identities.analyzer))
    return found
