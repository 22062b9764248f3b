"""Sends one device's answers: `hubbub submit [CLIENT.toml]`."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hubbub.cli.options.device import LimitOption, SettingsFile, Timeout, say_clipped
from hubbub.cli.terminal.output import Json, console, fail, failures, print_json, progress_console

if TYPE_CHECKING:
    from hubbub.client import DeviceReceipt
    from hubbub.protos.task.task import Task
    from hubbub.queries.questions.question import Value

STDIN = Path("-")
"""The name for stdin as a file of answers."""

IN_SIGHT = (
    "warning: every account of this machine can see --answer while this runs, and the shell's history keeps it; give a "
    "person's answers on stdin or with --answers FILE"
)
AnswerOption = Annotated[
    list[str] | None,
    typer.Option(
        "--answer",
        metavar="NAME=VALUE",
        help="An answer, for tests only: every account of this machine can see it. Repeat for each query.",
    ),
]
AnswersOption = Annotated[
    Path | None,
    typer.Option(
        "--answers", metavar="FILE", help="File of answers, or - for stdin, one NAME=VALUE per line. [default: -]"
    ),
]
RoundOption = Annotated[
    int | None, typer.Option("--round", min=0, help="The round's number. [default: the current round]")
]

ASKED = "type the answers, one NAME=VALUE per line; end with Ctrl-D"


def command(
    settings: SettingsFile = None,
    answer: AnswerOption = None,
    answers: AnswersOption = None,
    round_number: RoundOption = None,
    spread: Annotated[
        bool, typer.Option("--spread", help="Draw a send time from the rest of the round, and wait for it.")
    ] = False,
    timeout: Timeout = None,
    limit: LimitOption = None,
    as_json: Json = False,
) -> None:
    """Send one device's answers for the current round.

    The answers are randomized and stored on this machine, then sealed and sent until they are acknowledged. Give them
    on stdin or in a file, as lines NAME=VALUE. A query that you leave out is answered with "no answer", if the task
    allows that. If the shuffler cannot be reached, the stored answers are sent by the next `hubbub submit` or `hubbub
    device resend`. Answers that exceed a limit of the settings, or of --limit, are refused. A number outside of its
    query's range is clipped to it, and the command says so.

    A device answers a round once. If it has answered before, the first answers stay, and the new ones are not used; the
    output reports it. If the first answers were already acknowledged, there is nothing to send, and the exit status
    is 1.

    Answers are sent at once, so anyone who sees them arrive knows when they were given. With --spread the send time is
    drawn once, uniformly from the rest of the round, and stored with the answers. The command waits for that time. If
    it is stopped earlier, continue with `hubbub submit --spread`, or with `hubbub device resend` after that time.

    While a command runs, every account of this machine can see its words, and shells remember them. So use --answer for
    made-up answers only; it prints a warning.

    Examples: hubbub submit deployment/client/client.toml < answers.txt; hubbub submit deployment/client/client.toml
    --answers answers.txt
    """
    with failures(as_json):
        from hubbub.cli.options.device import checked_timeout, load_device, naming_ticket
        from hubbub.deploy.errors import as_usage_error
        from hubbub.protos.refusals import Refusal
        from hubbub.queries.errors import AnswerError

        seconds = checked_timeout(timeout)
        device = load_device(settings, limit or [])
        given = given_answers(device.task, answer or [], answers)
        clipped = say_clipped(device.task, [given])
        if spread:
            waits = "waiting for a send time drawn from the rest of the round; `hubbub device status` shows it"
            progress_console().print(waits, soft_wrap=True)
        try:
            with as_usage_error(AnswerError):
                receipt = device.submit_blocking(given, round_number, timeout=seconds, spread=spread)
        except Refusal as refusal:
            raise naming_ticket(refusal, settings) from refusal
        _show(device.task, receipt, clipped, as_json)


def _show(task: Task, receipt: DeviceReceipt, clipped: list[str], as_json: bool) -> None:
    """Print the outcome of the answers; exit with 1 if nothing was sent."""
    stand = "the first answers stay, the new ones were not used"
    error = None if receipt.sent else f"round {receipt.round} of task {task.name} was answered before: {stand}"
    if as_json:
        document = {"task": task.name, "task_id": task.id.hex(), "round": receipt.round, "answers_used": receipt.used}
        print_json(document | {"clipped": clipped} | ({} if error is None else {"error": error}))
    if error is not None:
        fail(error)
    if not as_json:
        more = "" if receipt.used else f"; it had been answered before: {stand}"
        console().print(f"acknowledged: task {task.name}, round {receipt.round}{more}", markup=False, soft_wrap=True)


def given_answers(task: Task, words: list[str], path: Path | None) -> dict[str, Value]:
    """Return the answers of --answer and --answers; without both, those on stdin.

    Raises:
        UsageError: as `lines_in` and `read_answers` do.
    """
    if words:
        progress_console().print(IN_SIGHT, soft_wrap=True)
    elif path is None and sys.stdin.isatty():
        progress_console().print(ASKED, soft_wrap=True)
    return read_answers(task, [*words, *([] if words and path is None else lines_in(path or STDIN))])


def lines_in(path: Path) -> list[str]:
    """Return the lines of a file, or of stdin if its name is `-`, without empty ones.

    Raises:
        UsageError: if it cannot be read, or is not UTF-8.
    """
    from hubbub.protos.errors import UsageError

    try:
        content = sys.stdin.buffer.read() if path == STDIN else path.read_bytes()
        # Texts may have other characters that end lines of a page; editors of Windows begin with a byte order mark.
        return [line for line in re.split(r"\r\n?|\n", content.decode("utf-8-sig")) if line.strip()]
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}; name a file of lines NAME=VALUE") from error
    except UnicodeDecodeError:
        # The message leaves out the bytes that are not UTF-8: they are part of an answer.
        raise UsageError(f"{path} is not UTF-8 text; save it as UTF-8") from None


def read_answers(task: Task, words: list[str]) -> dict[str, Value]:
    """Return the answers in texts of the form NAME=VALUE, each read by its question.

    Raises:
        UsageError: if a text has another form or names a query twice, if the task has no query of that name, or if the
            query cannot read the value. The message repeats no answer.
    """
    from hubbub.deploy.errors import as_usage_error
    from hubbub.protos.errors import TaskError, UsageError
    from hubbub.queries.errors import AnswerError

    answers: dict[str, Value] = {}
    for number, word in enumerate(words, 1):
        name, found, value = word.partition("=")
        name = name.strip()
        # Neither message has the text: it may be an answer.
        if not found:
            raise UsageError(f"answer {number} of {len(words)} has no =; give it as NAME=VALUE")
        if name in answers:
            raise UsageError(f"answer {number} of {len(words)} names a query that was answered before; answer it once")
        with as_usage_error(TaskError, AnswerError):
            answers[name] = task.asked_named(name).question.parse(value)
    return answers
