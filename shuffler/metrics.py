"""Metrics of the shuffler: counts are read from the store at each scrape; stages report their own timings.

Counts have only a task, a result and a reason as labels, and are rounded down until a round is cut
(`service.observability.rounding`). They show nothing about a single submission, device or answer. Task labels come from
the shuffler's own files: a task id that a stranger sends makes no label.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from hubbub.protos.messages import RoundState
from hubbub.protos.refusals import Reason
from hubbub.protos.task.task import Task
from hubbub.service.ledger.charges import Charges
from hubbub.service.observability.collectors import TASK, Ages, SnapshotCollector, SpentEpsilonMetric, names
from hubbub.service.observability.rounding import CountRounding
from hubbub.service.observability.timing import Observe
from hubbub.shuffler.records import ANY_ROUND, RETRIED, Round, Tally
from hubbub.shuffler.rounds.lifecycle import RoundLifecycle
from hubbub.shuffler.rounds.rounded_counts import shown_submissions, shown_tally
from hubbub.shuffler.stores.protocol import ShufflerStore
from hubbub.shuffler.tasks import Tasks

PREFIX = "hubbub_shuffler"
UNKNOWN_TASK = "(unknown)"
"""The label of every task that is not this shuffler's; no task can have this name."""

AGE = (
    "How long the oldest round was seen in a state (cut, mixed or released), or is past its scheduled cut if that is "
    "longer."
)

HELD_UP = (
    "Rounds delayed by a failure, a full disk, a refusal or a silent analyzer, from the first try that failed; and one "
    "if the next round cannot begin."
)

QUEUES = (
    "What waits or is in work: admission has submissions in work, opening pieces that wait for a process, store jobs "
    "that wait for the disk."
)

REFUSED = (
    Reason.MALFORMED,
    Reason.WRONG_SIZE,
    Reason.UNKNOWN_TASK,
    Reason.UNKNOWN_ROUND,
    Reason.TOO_EARLY,
    Reason.TOO_LATE,
    Reason.ERASED,
    Reason.KEY_SET_DIFFERS,
    Reason.ID_CONFLICT,
    Reason.UNOPENABLE,
    Reason.OVERLOADED,
    Reason.NOT_READY,
    Reason.ROUND_FULL,
    Reason.DISK_FULL,
    Reason.NOT_ENROLLED,
    Reason.CREDENTIAL_EXPIRED,
    Reason.REVOKED,
    Reason.NOT_COUNTERSIGNED,
    Reason.TASK_ENDED,
)
"""Every reason for which a submission may be refused. Each is shown from 0 on: a rate would miss the first."""


class ShufflerStage(StrEnum):
    """The stages that are timed."""

    ADMIT = "admit"
    """A call of a device."""
    OPEN = "open"
    """A piece of envelopes, by a process that opens them."""
    STORE = "store"
    """A transaction."""
    MIX = "mix"
    """A round."""
    RELEASE = "release"
    """A round, delivered."""
    ERASE = "erase"
    """A round, erased."""


STEPS = {
    RoundState.CUT: ShufflerStage.MIX,
    RoundState.MIXED: ShufflerStage.RELEASE,
    RoundState.RELEASED: ShufflerStage.ERASE,
}
"""The stage that takes a round out of a state."""


EXACT = frozenset(
    {
        # The collector rounds it, as it knows which rounds are cut.
        f"{PREFIX}_submissions_total",
        f"{PREFIX}_rounds",
        f"{PREFIX}_round_age_seconds",
        f"{PREFIX}_rounds_with_incidents",
        f"{PREFIX}_epsilon_spent",
        f"{PREFIX}_epsilon_budget",
        # A full limit opens an incident in any case; the second in which a call met it reveals no submission.
        f"{PREFIX}_limit_full_seconds_total",
        f"{PREFIX}_incidents",
        f"{PREFIX}_log_lines_lost_total",
        f"{PREFIX}_log_lines_waiting",
        f"{PREFIX}_certificate_remaining_seconds",
        f"{PREFIX}_build_info",
        f"{PREFIX}_spans_total",
        f"{PREFIX}_leader",
        f"{PREFIX}_term",
        f"{PREFIX}_standbys_missing",
        "process_start_time_seconds",
        "process_max_fds",
    }
)
"""Metrics that are shown exactly, as no submission changes them. Any other metric is rounded."""


def is_exact(name: str, labels: Mapping[str, str]) -> bool:
    """Return whether a sample is shown exactly; the steps of rounds are, as each round takes a step once."""
    return name in EXACT or labels.get("stage") in {stage.value for stage in STEPS.values()}


def timed_steps(stage: Callable[[str], Observe]) -> Callable[[RoundState, float], None]:
    """Return the observer of round steps, by state; it ignores steps that are not among the stages."""
    observers = {state: stage(name) for state, name in STEPS.items()}

    def observe(state: RoundState, seconds: float) -> None:
        if state in observers:
            observers[state](seconds)

    return observe


@dataclass(frozen=True)
class ObservedRound:
    """A round in a snapshot, with the count shown for it and whether it has an incident."""

    round: Round
    submissions: int
    with_incidents: bool


@dataclass(frozen=True)
class ShufflerSnapshot:
    """The state of the shuffler at one moment: its tasks and rounds, and by task the refusals, retries and charges."""

    tasks: Tasks
    rounds: Sequence[ObservedRound]
    tallies: Mapping[bytes, Tally]
    charges: Mapping[bytes, Charges]
    stuck: frozenset[bytes]
    """Ids of the tasks whose next round cannot begin."""

    def of(self, task: Task) -> list[ObservedRound]:
        """Return a task's rounds."""
        return [held for held in self.rounds if held.round.task_id == task.id]


class ShufflerCollector(SnapshotCollector[ShufflerSnapshot]):
    """Reads tasks, rounds, counts and queues at each scrape. `clock` is the service's."""

    def __init__(
        self,
        tasks: Tasks,
        store: ShufflerStore,
        rounds: RoundLifecycle,
        queues: Mapping[str, Callable[[], int]],
        clock: Callable[[], float],
        counts: CountRounding = CountRounding(),  # noqa: B008 - a value
    ) -> None:
        super().__init__()
        self._counts = counts
        self._tasks = tasks
        self._store = store
        self._rounds = rounds
        self._queues = queues
        self._clock = clock
        self._ages = Ages(clock)
        self._spent = SpentEpsilonMetric(PREFIX)

    async def _snapshot(self) -> ShufflerSnapshot:
        store, with_incidents = self._store, self._rounds.has_incident
        # One copy for all of the snapshot: the feed may add a task meanwhile.
        counts, tasks = self._counts, dict(self._tasks)
        rounds = [
            ObservedRound(each, shown_submissions(counts, each, await store.submissions(each)), with_incidents(each))
            for each in await store.rounds()
        ]
        # The empty id counts submissions that name no task of this shuffler.
        tallies = {
            task_id: Counter(shown_tally(counts, None, await store.tally(task_id, ANY_ROUND)))
            for task_id in (b"", *tasks)
        }
        for round_ in (held.round for held in rounds if held.round.task_id in tallies):
            tally = await store.tally(round_.task_id, round_.number)
            tallies[round_.task_id].update(shown_tally(counts, round_, tally))
        charges = {task_id: await store.charges(task_id) for task_id in tasks}
        stuck = frozenset(task.id for task in tasks.values() if self._rounds.cannot_begin(task))
        return ShufflerSnapshot(tasks, rounds, tallies, charges, stuck)

    def _metrics(self, snapshot: ShufflerSnapshot) -> Iterator[Metric]:
        yield from (self._submissions(snapshot), *self._of_rounds(snapshot), self._waiting())
        yield from self._spent.metrics(snapshot.tasks.values(), snapshot.charges)

    def _submissions(self, snapshot: ShufflerSnapshot) -> Metric:
        family = CounterMetricFamily(
            f"{PREFIX}_submissions",
            "Submissions accepted, retried (the same again) and refused, these by reason; together all that came.",
            labels=(*TASK, "result", "reason"),
        )
        for task in snapshot.tasks.values():
            tally = snapshot.tallies[task.id]
            accepted = sum(held.submissions for held in snapshot.of(task))
            family.add_metric((*names(task), "accepted", ""), accepted)
            family.add_metric((*names(task), "retried", ""), tally[RETRIED])
            _add_refusals(family, names(task), tally, REFUSED)
        unknown = (Reason.MALFORMED, Reason.UNKNOWN_TASK)
        _add_refusals(family, (UNKNOWN_TASK, ""), snapshot.tallies[b""], unknown)
        return family

    def _of_rounds(self, snapshot: ShufflerSnapshot) -> Iterator[Metric]:
        labels = (*TASK, "state")
        count = GaugeMetricFamily(f"{PREFIX}_rounds", "Rounds in each state.", labels=labels)
        age = GaugeMetricFamily(f"{PREFIX}_round_age_seconds", AGE, labels=labels)
        incident = GaugeMetricFamily(f"{PREFIX}_rounds_with_incidents", HELD_UP, labels=TASK)
        ages = self._ages_of([held.round for held in snapshot.rounds if held.round.state in STEPS])
        for task in snapshot.tasks.values():
            mine = snapshot.of(task)
            for state in RoundState:
                here = [held.round.key for held in mine if held.round.state is state]
                count.add_metric((*names(task), state.shown), len(here))
                if state in STEPS:
                    age.add_metric((*names(task), state.shown), max((ages[key, state] for key in here), default=0.0))
            incident.add_metric(names(task), sum(held.with_incidents for held in mine) + (task.id in snapshot.stuck))
        yield from (count, age, incident)

    def _ages_of(self, rounds: Sequence[Round]) -> dict[tuple[int, RoundState], float]:
        now = self._clock()
        ages = self._ages.of((round_.key, round_.state) for round_ in rounds)
        for round_ in rounds:
            if round_.task_id in self._tasks:
                past_cut = now - self._tasks[round_.task_id].schedule.cut(round_.number)
                ages[round_.key, round_.state] = max(ages[round_.key, round_.state], past_cut)
        return ages

    def _waiting(self) -> Metric:
        family = GaugeMetricFamily(f"{PREFIX}_queue_depth", QUEUES, labels=("queue",))
        for name, depth in self._queues.items():
            family.add_metric((name,), depth())
        return family


def _add_refusals(
    family: CounterMetricFamily, names: tuple[str, str], tally: Mapping[str, int], always: Sequence[Reason]
) -> None:
    for reason in Reason:
        if reason in always or tally.get(reason):
            family.add_metric((*names, "refused", reason.value), tally.get(reason, 0))
