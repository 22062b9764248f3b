"""What can happen to the pipeline, one thing after the other, drawn by hypothesis or from a seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from simulation.devices import CARRIERS, MISDEEDS

DEVICES = 6
FLEET = "fleet"
SERVICES = ("shuffler", "analyzer")
LINKS = ("devices", "delivery")

POINTS = {
    "shuffler": (
        *(f"{when} {what}" for what in ("BEGIN", "COMMIT", "VACUUM", "wal_checkpoint") for when in ("before", "after")),
        *(
            f"{when} INSERT {table}"
            for table in ("round", "known", "arrived", "released", "batch", "ledger", "chain", "tally")
            for when in ("before", "after")
        ),
        *(f"{when} DELETE {table}" for table in ("arrived", "known", "released") for when in ("before", "after")),
        *(f"{when} UPDATE" for when in ("before", "after")),
        *(f"{when} {call}" for call in ("get_round", "submit") for when in ("before", "after")),
        *(
            f"{when} {call}"
            for call in ("get_key", "get_releases", "begin", "put", "commit")
            for when in ("before sending", "after the answer to")
        ),
    ),
    "analyzer": (
        *(f"{when} {what}" for what in ("BEGIN", "COMMIT", "VACUUM", "wal_checkpoint") for when in ("before", "after")),
        *(
            f"{when} INSERT {table}"
            for table in ("round", "private_key", "batch", "arrived", "ledger", "chain", "certificate")
            for when in ("before", "after")
        ),
        *(f"{when} DELETE {table}" for table in ("arrived", "private_key") for when in ("before", "after")),
        *(f"{when} UPDATE" for when in ("before", "after")),
        *(
            f"{when} {call}"
            for call in ("get_key", "get_releases", "begin", "put", "commit")
            for when in ("before", "after")
        ),
    ),
    "device": (
        *(f"{when} {what}" for what in ("BEGIN", "COMMIT", "wal_checkpoint") for when in ("before", "after")),
        *(
            f"{when} INSERT {table}"
            for table in ("round", "submission", "forgotten", "history", "task_cost", "spent")
            for when in ("before", "after")
        ),
        *(f"{when} DELETE {table}" for table in ("round", "spent") for when in ("before", "after")),
        *(f"{when} UPDATE" for when in ("before", "after")),
        *(f"{when} {call}" for call in ("get_round", "submit") for when in ("before sending", "after the answer to")),
    ),
}
"""Every point at which a party may be killed: before and after each write, commit, erasure, send and answer."""

ENROLLING = {
    "shuffler": tuple(f"{when} {what}" for what in ("INSERT ticket", "enroll") for when in ("before", "after")),
    "device 0": (
        *(f"{when} INSERT enrollment" for when in ("before", "after")),
        *(f"{when} enroll" for when in ("before sending", "after the answer to")),
    ),
}
"""Those that only devices come to which are enrolled."""


@dataclass(frozen=True)
class Submit:
    """A device answers the round that its clock says is on."""

    device: int
    carrier: str
    delay: float | None


@dataclass(frozen=True)
class SubmitMany:
    """A fleet submits for several devices; twice the same ones are the same devices."""

    devices: tuple[int, ...]
    per_call: int


@dataclass(frozen=True)
class Resend:
    """A device's process starts anew and hands over what waits."""

    device: int


@dataclass(frozen=True)
class Kill:
    """A party is killed when it comes to a point for that many times more; at once where the point is empty."""

    party: str
    point: str
    occurrence: int = 1


@dataclass(frozen=True)
class Restart:
    """A service is started, or drained and started again where it runs."""

    party: str


@dataclass(frozen=True)
class Start:
    """A service is started where it does not run."""

    party: str


@dataclass(frozen=True)
class Cut:
    """A link carries nothing until it is healed."""

    link: str


@dataclass(frozen=True)
class Heal:
    """A link carries everything, without delay."""

    link: str


@dataclass(frozen=True)
class Lose:
    """A link loses the next requests or answers."""

    link: str
    what: str
    count: int


@dataclass(frozen=True)
class Slow:
    """A link takes that many seconds each way."""

    link: str
    seconds: float


@dataclass(frozen=True)
class Fill:
    """A party's disk takes nothing more."""

    party: str


@dataclass(frozen=True)
class Free:
    """A party's disk has room again."""

    party: str


@dataclass(frozen=True)
class Skew:
    """A party's clock is that many seconds ahead."""

    party: str
    seconds: float


@dataclass(frozen=True)
class Misbehave:
    """A stranger does something that it should not."""

    kind: str
    number: int


@dataclass(frozen=True)
class Close:
    """The operator closes the round that is on."""


@dataclass(frozen=True)
class Wait:
    """Time passes."""

    seconds: float


Operation = (
    Submit
    | SubmitMany
    | Resend
    | Kill
    | Restart
    | Start
    | Cut
    | Heal
    | Lose
    | Slow
    | Fill
    | Free
    | Skew
    | Misbehave
    | Close
    | Wait
)
Pick = Callable[[int], int]
"""Returns a number from 0 to below its argument."""


def draw(pick: Pick) -> Operation:
    """Return one operation; equal picks give equal operations."""

    def one(*items: str) -> str:
        return items[pick(len(items))]

    def party() -> str:
        return one(*SERVICES, *SERVICES, f"device {pick(DEVICES)}", FLEET)

    makers: tuple[tuple[int, Callable[[], Operation]], ...] = (
        (9, lambda: Submit(pick(DEVICES), CARRIERS[pick(3)], [None, -30.0, 15.5, 42.25, 180.0, 999.0][pick(6)])),
        (4, lambda: SubmitMany(tuple(range(start := pick(4), start + 1 + pick(6))), 1 + pick(4))),
        (2, lambda: Resend(pick(DEVICES))),
        (7, lambda: _kill(party(), pick)),
        (2, lambda: Restart(one(*SERVICES))),
        (5, lambda: Start(one(*SERVICES))),
        (1, lambda: Cut(one(*LINKS))),
        (2, lambda: Heal(one(*LINKS))),
        (3, lambda: Lose(one(*LINKS), one("requests", "answers"), 1 + pick(3))),
        (1, lambda: Slow(one(*LINKS), [0.5, 2.0, 20.0][pick(3)])),
        (1, lambda: Fill(party())),
        (2, lambda: Free(party())),
        (
            1,
            lambda: Skew(
                one("analyzer", f"device {pick(DEVICES)}", FLEET), [-3600.0, -59.0, 0.0, 59.0, 3600.0][pick(5)]
            ),
        ),
        (8, lambda: Misbehave(MISDEEDS[pick(len(MISDEEDS))], pick(1000))),
        (1, Close),
        (6, lambda: Wait([0.1, 3.0, 30.0, 120.0, 400.0][pick(5)])),
    )
    chosen = pick(sum(weight for weight, _ in makers))
    for weight, make in makers:
        chosen -= weight
        if chosen < 0:
            return make()
    raise AssertionError("a pick was out of its range")


def _kill(party: str, pick: Pick) -> Kill:
    points = POINTS.get(party, POINTS["device"])
    choice = pick(len(points) + 3)
    return Kill(party, points[choice], 1 + pick(3)) if choice < len(points) else Kill(party, "")


def from_seed(seed: int, count: int) -> list[Operation]:
    """Return the operations of a seed."""
    random = Random(seed)
    return [draw(random.randrange) for _ in range(count)]
