"""Plays a task's worst case on its own services, and compares the attacker's gain with the certificate.

All answers are fixed except one: the victim's is one of two, chosen by a fair coin of the operating system. The
attacker is the analyzer: it sees every opened report, in order, and the certificate limits its gain. Its actual gain is
bounded from below with confidence (`inference`).
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
from hubbub.deploy.audit.noise import NoiseResult, NoisyRound, check_rounds, compare
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

AUDITED = "an audit's own task, which no person answers"
"""The reason for a large δ in the played task."""

UNDER_MINIMUM_SHARE = 8
"""One round in this many is played under the minimum, unless an option sets their number."""

LEAST_ROUNDS = 8
"""Fewest rounds: for each answer, two to choose the event, and two to judge it."""


@dataclass(frozen=True)
class AuditOptions:
    """Options of an audit: the rounds, their people, the rounds under the minimum, δ and confidence.

    None is the task's own value (its minimum of reports, its δ); for `under_minimum`, one in `UNDER_MINIMUM_SHARE`.
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
    """Parts that tests replace with broken ones: the services' programs, the victim's device, the people."""

    programs: Mapping[Role, Sequence[str]] = field(default_factory=dict)
    victim: type[Victim] = Victim
    participants: type[Participants] = Participants


@dataclass(frozen=True)
class AuditedAttack:
    """An attack on rounds of one kind: its result, its scores, and how many rounds were opened."""

    under_minimum: bool
    shown: AttackResult
    scores: Scores
    opened: int


@dataclass(frozen=True)
class Audit:
    """The result of an audit of the task `name`. `task` was played; `certificate` is the one with the largest ε.

    `noise` compares the noise of each query that has it with its law. `second_deliveries` says of each batch that was
    delivered twice whether it was the same list again.
    """

    name: str
    task: SignedTask
    options: AuditOptions
    certified: float
    certificate: bytes
    visible: float
    attacks: tuple[AuditedAttack, ...]
    noise: tuple[NoiseResult, ...] = ()
    second_deliveries: tuple[bool, ...] = ()

    @property
    def attained(self) -> float:
        """The ε that the rounds show, with the requested confidence."""
        return max(each.shown.epsilon for each in self.attacks)

    @property
    def released_under_minimum(self) -> int:
        """How many rounds under the minimum were opened."""
        return sum(each.opened for each in self.attacks if each.under_minimum)

    @property
    def consistent(self) -> bool:
        """Whether nothing is contradicted.

        No larger ε than the certificate's was shown, no round under the minimum was opened, noise is not less than its
        law, and a batch that was delivered again was the same list.
        """
        released = self.released_under_minimum == 0 and all(self.second_deliveries)
        return self.attained <= self.certified and released and all(each.consistent for each in self.noise)


def check_single_rounds(asked: Draft | Task) -> None:
    """Check that the rounds of a task are independent.

    Raises:
        UsageError: if some are connected.
    """
    if asked.horizon is not None:
        raise UsageError(
            f"task {asked.name} asks a question over {asked.horizon} connected rounds, but an audit plays independent "
            "rounds; leave that question out"
        )


def audited_task(task: Task, options: AuditOptions) -> Task:
    """Return the task to play: the same queries, with that many people, at that δ, with the resulting ε.

    Everybody is honest, so the certificate is for a round of exactly that many reports. Budgets are left out, since
    they are for many rounds. So is a transparency log: the task that is played here is not in it.

    Raises:
        UsageError: if an option is out of its limits, rounds of the task are connected, or a round of that many people
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
    # For every other admission, devices are enrolled here, by the audit's own operator alone.
    admission = OPEN if task.admission.assumed else ENROLLED
    most = max(task.maximum_reports, participants)
    reason = AUDITED if most is not None and is_large(delta, participants) else None
    privacy = replace(privacy, large_delta=reason)
    played = replace(
        task, minimum_reports=participants, privacy=privacy, admission=admission, maximum_reports=most, log=None
    )
    found = compose(parts_at_minimum(Terms.of(played), [query.mechanism for query in task.queries]), delta)
    if not found.epsilon_upper < MOST_EPSILON:
        raise UsageError(
            f"{participants} people give ε = {found.epsilon_upper:g}, but a task states less than {MOST_EPSILON:g}; "
            "ask for more --participants"
        )
    return replace(played, privacy=replace(privacy, epsilon=min(MOST_EPSILON, found.epsilon_upper * (1 + 1e-6))))


def check_options(task: Task, options: AuditOptions) -> None:
    """Check that this many rounds could contradict the played task's certificate, and the law of any noise.

    Raises:
        UsageError: naming the option, and a sufficient number of rounds.
    """
    full = options.rounds - options.rounds_under_minimum
    if options.rounds_under_minimum < 0 or full < LEAST_ROUNDS:
        limit = f"leave {LEAST_ROUNDS} or more"
        raise UsageError(
            f"--rounds {options.rounds} with --under-minimum {options.rounds_under_minimum} leaves {full} rounds "
            f"with all their people; {limit}"
        )
    error, delta = _error(task, options), task.privacy.delta
    check_rounds(task, full, error)
    visible = most_visible(full, delta, error)
    if visible > task.privacy.epsilon:
        return
    needed = full = rounds_to_show(task.privacy.epsilon, delta, error)
    while needed - replace(options, rounds=needed).rounds_under_minimum < full:
        needed += 1
    raise UsageError(
        f"--rounds {options.rounds} can show at most ε = {visible:.4g}, so no fault could contradict the certificate "
        f"of {task.minimum_reports} people, which states {task.privacy.epsilon:.4g} at δ = {delta:g}; ask for "
        f"{needed} rounds, a lower --confidence or more --participants"
    )


def _error(task: Task, options: AuditOptions) -> float:
    """Return the error probability of the attack on rounds of one kind, and of the comparison of noise with its law.

    They share 1 - confidence.
    """
    noisy = any(query.noise is not None for query in task.queries)
    return (1 - options.confidence) / (1 + bool(options.rounds_under_minimum) + noisy)


async def run(
    task: Task,
    options: AuditOptions,
    folder: Path,
    progress: Callable[[], None] = lambda: None,
    parts: AuditParts | None = None,
) -> Audit:
    """Audit a frozen task, `audited_task`'s, in a new folder; `progress` is called after every round.

    Raises:
        UsageError: if that many rounds could not contradict the certificate.
        HubbubError: if a service fails.
    """
    check_options(task, options)
    playing = _AuditRun(task, folder, parts or AuditParts(), progress)
    full, pipeline = await playing.full(options.rounds - options.rounds_under_minimum)
    kinds = (
        [full, await playing.under_minimum(options.rounds_under_minimum)] if options.rounds_under_minimum else [full]
    )
    delta, error = task.privacy.delta, _error(task, options)
    attacks = tuple(_attacked(playing.worst, played, delta, error) for played in kinds)
    certificate = _checked(pipeline.task.task.identities, full)
    visible, found = most_visible(len(full), delta, error), _noise(task, playing.worst, full, error)
    again = tuple(same for played in kinds for each in played for same in each.same_again)
    return Audit(
        task.name, pipeline.task, options, epsilon_in(certificate), certificate, visible, attacks, found, again
    )


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
        """Play rounds with all their people; return their outcomes, and the stopped services."""
        harness = self._harness(
            "full", [AuditRound(is_first, self.task.minimum_reports) for is_first in _coins(rounds)]
        )
        async with harness.pipeline() as pipeline:
            return await harness.run(pipeline), pipeline

    async def under_minimum(self, rounds: int) -> tuple[RoundOutcome, ...]:
        """Play rounds with only the victim, which are under the minimum.

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


def _noise(
    task: Task, worst: Sequence[WorstCase], played: Sequence[RoundOutcome], error: float
) -> tuple[NoiseResult, ...]:
    """Compare the noise of each query that has it with its law, in the rounds that were opened."""
    found = []
    for place, case in enumerate(worst):
        opened = [(each.seen[place], each.part) for each in played]
        rounds = [NoisyRound(seen, part.is_first, part.participants) for seen, part in opened if seen is not None]
        if case.query.noise is not None:
            found.append(compare(task, case, rounds, error))
    return tuple(found)


def _coins(rounds: int) -> list[bool]:
    """Return in which rounds the victim has its first answer: half of them, in a random order."""
    coins = [place % 2 == 0 for place in range(rounds)]
    secrets.SystemRandom().shuffle(coins)
    return coins


def _checked(identities: Identities, played: Sequence[RoundOutcome]) -> bytes:
    """Return the certificate with the largest ε, verified with its signers pinned."""
    found = max((each.certificate for each in played if each.certificate is not None), key=epsilon_in)
    verify(found, Pins(identities.operator, identities.shuffler, identities.analyzer))
    return found
