"""What pages keep of a task: the words and the budget that follow from the signed task, and its rounds."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from markupsafe import Markup

from hubbub.accountant.certificate.terms import Terms
from hubbub.accountant.errors import AccountingError
from hubbub.accountant.spending.budget import BudgetForecast, forecast
from hubbub.pages.dashboard.shown_round import ShownRound, in_words
from hubbub.protos.errors import SignatureError
from hubbub.protos.identity.documents import fingerprint
from hubbub.protos.identity.keys import CORE_ROLES
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.task import Task, connected, followed
from hubbub.results import PublishedRow, Trust
from hubbub.verification.pins import Pins

MOST_PARTS = 32
"""Parts of pages that are kept of a task, some 100 kB each."""


@dataclass(frozen=True)
class ShownTask:
    """A task with its signatures checked by the keys that it names.

    Attributes:
        signed: the task.
        unsigned: why its signatures do not hold, None if they do.
        known: for each party whose key is known beforehand, whether the task names that key, or one before or after it.
    """

    signed: SignedTask
    unsigned: str | None
    known: Mapping[str, bool]

    @classmethod
    def of(cls, signed: SignedTask, pins: Pins) -> ShownTask:
        """Check a task's signatures, and compare its keys with those that are known."""
        named, lineage = signed.task.identities, followed(signed.task, connected(signed.task, pins.successions)).lineage
        known = {
            role.value: key == named.of(role) or (lineage is not None and lineage.holds(role, key))
            for role in CORE_ROLES
            if (key := pins.of(role)) is not None
        }
        cores = {role.value for role in CORE_ROLES}
        if pins.hops is not None:
            known |= {name: pins.hops == named.hops for name in named.named if name not in cores}
        try:
            signed.check(named.operator, named.shuffler)
        except SignatureError as error:
            return cls(signed, str(error), known)
        return cls(signed, None, known)

    @property
    def task(self) -> Task:
        """The task."""
        return self.signed.task

    @property
    def parties(self) -> list[tuple[str, str, bool | None]]:
        """Each party with the fingerprint of its key, and whether that is the known one; None if none is known."""
        return [(name, fingerprint(key), self.known.get(name)) for name, key in self.task.identities.named.items()]

    @property
    def strangers(self) -> list[str]:
        """The parties that have other keys than those known beforehand."""
        return [name for name, _, same in self.parties if same is False]

    @property
    def compared(self) -> bool:
        """Whether both signers have the keys that were known beforehand."""
        return all(self.known.get(name) for name in ("operator", "shuffler"))

    @cached_property
    def budget(self) -> BudgetForecast | None:
        """How many rounds fit the task's budget; None if that cannot be computed. It may take seconds."""
        task = self.task
        try:
            return forecast(Terms.of(task), [query.mechanism for query in task.queries], task.schedule.rounds)
        except AccountingError:
            return None

    @property
    def knows_budget(self) -> bool:
        """Whether `budget` was computed, so that it takes no time."""
        return "budget" in vars(self)


@dataclass
class TaskRounds:
    """What is known of one task's rounds.

    Attributes:
        rounds: those that pages show, by number; each says whether it was verified.
        wrong: why a round is not shown, by number.
        listed: the numbers of all that are certified.
        wanted: rounds that somebody looks at, which are checked before others.
    """

    task_id: str
    rounds: dict[int, ShownRound] = field(default_factory=dict)
    wrong: dict[int, str] = field(default_factory=dict)
    listed: tuple[int, ...] = ()
    wanted: list[int] = field(default_factory=list)
    _parts: OrderedDict[object, Markup] = field(default_factory=OrderedDict)

    @property
    def newest(self) -> ShownRound | None:
        """The newest round that is shown."""
        shown = self.shown
        return shown[-1] if shown else None

    @property
    def shown(self) -> list[ShownRound]:
        """The rounds that pages show, rising."""
        held = self.rounds.copy()
        return [held[number] for number in sorted(held)]

    @property
    def verified(self) -> list[int]:
        """The rounds that were verified, rising."""
        return [each.number for each in self.shown if each.verified]

    @property
    def unread(self) -> list[int]:
        """The rounds that were not read yet, the newest first."""
        return sorted(set(self.listed) - set(self.rounds) - set(self.wrong), reverse=True)

    @property
    def unchecked(self) -> list[int]:
        """The rounds that are still to be checked, read or not, the newest first."""
        return sorted(set(self.listed) - set(self.verified) - set(self.wrong), reverse=True)

    @property
    def trust(self) -> Trust:
        """What was checked of all verified rounds together."""
        return Trust.joined([each.trust for each in self.shown if each.verified])

    @property
    def unverified(self) -> str:
        """The rounds that are shown although they are not checked yet, in words; empty if there are none."""
        numbers = [each.number for each in self.shown if not each.verified]
        return f"{'round' if len(numbers) == 1 else 'rounds'} {in_words(numbers)}" if numbers else ""

    def rows(self, query: str) -> list[PublishedRow]:
        """Return the rows of a query in all rounds that are shown, rising."""
        return [row for each in self.shown for row in each.rows(query)]

    def part(self, key: object, make: Callable[[], Markup]) -> Markup:
        """Return a part of a page, made once for the rounds that are there; the last `MOST_PARTS` are kept."""
        # A round that comes while a part is made begins new parts, so the part without it is not kept.
        held = self._parts
        found = held.get(key)
        if found is None:
            found = held[key] = make()
            if len(held) > MOST_PARTS:
                held.popitem(last=False)
        return found

    def put(self, found: ShownRound) -> None:
        """Show a round from now on."""
        self.rounds[found.number] = found
        self.wrong.pop(found.number, None)
        self._parts = OrderedDict()

    def refuse(self, number: int, why: str) -> None:
        """Show a round no more, and say why."""
        self.wrong[number] = why
        self.rounds.pop(number, None)
        self._parts = OrderedDict()

    def list_now(self, numbers: tuple[int, ...]) -> None:
        """Take these for all rounds that are certified."""
        if numbers != self.listed:
            self.listed = numbers
            self._parts = OrderedDict()
