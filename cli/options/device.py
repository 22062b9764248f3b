"""Loads the device of a client's settings for commands, with its limits, timeout and progress messages."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hubbub.cli.terminal.output import progress_console
from hubbub.protos.errors import UsageError

if TYPE_CHECKING:
    from hubbub.client import Device, PrivacyLimits, Retry
    from hubbub.protos.refusals import Refusal
    from hubbub.protos.task.task import Task
    from hubbub.queries.questions.question import Question, Value

Timeout = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        metavar="SECONDS",
        help="Seconds to try to reach the shuffler. [default: `timeout` of the settings]",
    ),
]
"""The option of commands that send."""


def checked_timeout(seconds: float | None) -> float | None:
    """Return how long to try, in seconds.

    Raises:
        UsageError: if it is not above 0.
    """
    if seconds is not None and not seconds > 0:
        raise UsageError(f"--timeout {seconds:g}: give a number of seconds above 0")
    return seconds


SettingsFile = Annotated[
    Path | None,
    typer.Argument(
        metavar="CLIENT.toml",
        help="The client's settings file. [default: the one that HUBBUB_SETTINGS names]",
    ),
]
"""The first argument of commands that are a device."""

LimitOption = Annotated[
    list[str] | None,
    typer.Option("--limit", metavar="NAME=EPSILON", help="Replace a limit of [limits] in the settings; repeatable."),
]
"""The option of commands that answer, or show the budget."""


def limits_from(limits: PrivacyLimits, words: Sequence[str]) -> PrivacyLimits:
    """Return the limits of the settings; texts of the form NAME=EPSILON replace some of them.

    Raises:
        UsageError: if a text has another form, or names no limit.
    """
    from dataclasses import asdict, replace

    from hubbub.accountant.written_numbers import limit
    from hubbub.deploy.errors import as_usage_error
    from hubbub.protos.errors import UsageError

    given = asdict(limits)
    for word in words:
        name, _, value = word.partition("=")
        name = name.replace("-", "_")
        try:
            given[name] = {known: limit(value) for known in given}[name]
        except (KeyError, ValueError) as error:
            known = ", ".join(given)
            raise UsageError(f"--limit {word!r} is not NAME=EPSILON; the names are {known}") from error
    with as_usage_error(UsageError):
        return replace(limits, **given)


def load_device(settings: Path | None, limits: Sequence[str] = ()) -> Device:
    """Return the device of the settings; while it retries to reach the shuffler, it reports so on stderr.

    `settings` is their file, if it is not named by a variable. `limits` are texts NAME=EPSILON that replace limits.

    Raises:
        UsageError: if a limit cannot be read, or settings are missing.
        HubbubError, OSError: if the settings, or the files that they name, cannot be used.
    """
    from hubbub.client import Device, Retrying, RetryPolicy, read_settings
    from hubbub.deploy.files import signed_task_in

    found = read_settings(settings)
    progress = RetryProgress(found.shuffler, _say, terminal=sys.stderr.isatty())
    return Device.from_settings(
        settings,
        # Read here: it may be a draft, and the command says what to do with it.
        task=signed_task_in(found.task).encode(),
        limits=limits_from(found.limits, limits),
        retrying=Retrying(RetryPolicy(total=found.timeout), progress=progress),
    )


def say_clipped(task: Task, answers: Sequence[Mapping[str, Value]]) -> list[str]:
    """Say on stderr which numbers are outside of their ranges, without repeating one; return the queries' names."""
    found = []
    for asked in task.asked:
        given = [each[asked.name] for each in answers if each.get(asked.name) is not None]
        for part in asked.question.parts:
            outside = sum(_is_outside(part, each) for each in given)
            if outside:
                which = "the answer is" if len(given) == 1 else f"{outside:,} of {len(given):,} answers are"
                ends = f"{getattr(part, 'lower', 0):.12g} to {getattr(part, 'upper', 0):.12g}"
                _say(f"{part.name}: {which} outside of {ends}, and {which.split()[-1]} clipped to that range")
                found.append(part.name)
    return found


def _is_outside(part: Question, answer: Value) -> bool:
    """Return whether the part of an answer that a question of a range is given is outside of the range."""
    number = answer.get(part.name) if isinstance(answer, Mapping) else answer
    lower, upper = getattr(part, "lower", None), getattr(part, "upper", None)
    if lower is None or upper is None or not isinstance(number, int | float):
        return False
    # What is not finite is refused.
    return bool(-math.inf < number < lower or upper < number < math.inf)


def naming_ticket(refusal: Refusal, settings: Path | None) -> Refusal:
    """Return a refusal of a missing or bad ticket with the name of the ticket's file; any other one as it is."""
    from hubbub.client import read_settings
    from hubbub.protos.refusals import Reason, Refusal

    ticket = read_settings(settings).ticket
    if refusal.reason is Reason.NOT_ENROLLED and (ticket is None or not ticket.exists()):
        where = f"{settings or 'the environment'} names no ticket" if ticket is None else f"there is no ticket {ticket}"
        return Refusal(refusal.reason, f"{where}: {refusal.message}", refusal.retry_after)
    if refusal.reason is not Reason.BAD_TICKET or ticket is None:
        return refusal
    return Refusal(refusal.reason, f"{ticket}: {refusal.message}", refusal.retry_after)


class RetryProgress:
    """Reports retries: on a terminal at once and then every 5 s, elsewhere after 5 s and then every 30 s."""

    def __init__(
        self,
        address: str,
        say: Callable[[str], None],
        *,
        terminal: bool,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._address = address
        self._say = say
        self._monotonic = monotonic
        self._every = 5.0 if terminal else 30.0
        self._next = monotonic() + (0.0 if terminal else 5.0)

    def __call__(self, retry: Retry) -> None:
        """Report the error and the next try, unless the last report was too recent."""
        now = self._monotonic()
        if now < self._next:
            return
        self._next = now + self._every
        pause = "now" if retry.pause < 1 else f"in {retry.pause:.0f} s"
        from hubbub.protos.refusals import Refusal

        # That nobody answered names the address itself.
        where = f"{self._address}: " if isinstance(retry.error, Refusal) else ""
        self._say(f"{where}{retry.error}; trying again {pause}, for {retry.left:.0f} s more")


def _say(text: str) -> None:
    progress_console().print(text, markup=False, soft_wrap=True)
