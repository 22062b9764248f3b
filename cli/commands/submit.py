"""`hubbub submit CLIENT.toml`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hubbub.cli.device import LimitOption, Timeout
from hubbub.cli.output import Json, console, fail, failures, print_json, progress_console

if TYPE_CHECKING:
    from hubbub.client import DeviceReceipt
    from hubbub.protos.task.task import Task
    from hubbub.queries.questions.question import Value

STDIN = Path("-")
"""The name that stdin has as a file of answers."""

IN_SIGHT = (
    "warning: --answer shows an answer to every account of this machine while this runs, and leaves it in the shell's "
    "history; give a person's answers on stdin or by --answers FILE"
)
ASKED = "answers, NAME=VALUE a line; Ctrl-D ends them"


def command(
    settings: Annotated[Path, typer.Argument(metavar="CLIENT.toml", help="The client's settings file.")],
    answer: Annotated[
        list[str] | None,
        typer.Option(
            "--answer",
            metavar="NAME=VALUE",
            help="An answer, in sight of every account of this machine: for trying out. Repeat for each query.",
        ),
    ] = None,
    answers: Annotated[
        Path | None,
        typer.Option(
            "--answers",
            metavar="FILE",
            help="Answers in a file, or - for stdin, NAME=VALUE a line: nobody else sees them there; default: -.",
        ),
    ] = None,
    round_number: Annotated[
        int | None, typer.Option("--round", min=0, help="Which round; default: the current.")
    ] = None,
    spread: Annotated[
        bool, typer.Option("--spread", help="Wait for a time drawn from what is left of the round, and send then.")
    ] = False,
    timeout: Timeout = None,
    limit: LimitOption = None,
    as_json: Json = False,
) -> None:
    """Send one device's answers: randomized and stored here, then sealed and sent until they are acknowledged.

    Answers are lines NAME=VALUE of stdin, or of the file that --answers names. A query that is not named is answered
    with "no answer", where the task allows that. Where nobody can be reached the answers are kept, and sent by the next
    call or by `hubbub device resend`. A round is answered once: where it was before, the first answers stand and those
    given now are not used, as the output says; the exit status is 1 where they had been acknowledged, so that there was
    nothing left to send. Answers that would spend more than the limits of the settings, or of --limit, are refused.

    They are sent at once, and whoever sees them arrive knows when they were given. With --spread the time is drawn
    uniformly from what is left of the round, once: it is stored with the answers, and this waits for it. If it is ended
    before, `hubbub submit --spread`, or `hubbub device resend` at that time, goes on.

    The words of a command can be seen by everybody on this machine, for as long as it runs, and shells remember them.
    So --answer is for made-up answers alone, and warns of it.

    Examples: hubbub submit deployment/client/client.toml < answers.txt; hubbub submit deployment/client/client.toml
    --answers answers.txt
    """
    with failures(as_json):
        from hubbub.cli.device import checked_timeout, load_device
        from hubbub.deploy.errors import as_usage_error
        from hubbub.queries.errors import AnswerError

        seconds = checked_timeout(timeout)
        device = load_device(settings, limit or [])
        if answer:
            progress_console().print(IN_SIGHT, soft_wrap=True)
        elif answers is None and sys.stdin.isatty():
            progress_console().print(ASKED, soft_wrap=True)
        words = [*(answer or []), *([] if answer and answers is None else lines_in(answers or STDIN))]
        given = read_answers(device.task, words)
        if spread:
            waits = "waits for a time drawn from what is left of the round; `hubbub device status` tells it"
            progress_console().print(waits, soft_wrap=True)
        with as_usage_error(AnswerError):
            receipt = device.submit_blocking(given, round_number, timeout=seconds, spread=spread)
        _show(device.task, receipt, as_json)


def _show(task: Task, receipt: DeviceReceipt, as_json: bool) -> None:
    """Print what became of the answers; exit with 1 where nothing became of them."""
    stand = "the first answers stand, those given now were not used"
    error = None if receipt.sent else f"round {receipt.round} of task {task.name} was answered before: {stand}"
    if as_json:
        document = {"task": task.name, "task_id": task.id.hex(), "round": receipt.round, "answers_used": receipt.used}
        print_json(document | ({} if error is None else {"error": error}))
    if error is not None:
        fail(error)
    if not as_json:
        more = "" if receipt.used else f"; it had been answered before: {stand}"
        console().print(f"acknowledged: task {task.name}, round {receipt.round}{more}", markup=False, soft_wrap=True)


def lines_in(path: Path) -> list[str]:
    """Return the lines of a file, or of stdin where it is named `-`, without empty ones.

    Raises:
        UsageError: where it cannot be read, or is not UTF-8.
    """
    from hubbub.protos.errors import UsageError

    try:
        content = sys.stdin.buffer.read() if path == STDIN else path.read_bytes()
        return [line for line in content.decode().splitlines() if line.strip()]
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}; name a file of lines NAME=VALUE") from error
    except UnicodeDecodeError:
        # Without what it could not read, which is of an answer.
        raise UsageError(f"{path} is not UTF-8 text; write it with an editor that saves UTF-8") from None


def read_answers(task: Task, words: list[str]) -> dict[str, Value]:
    """Return the answers in texts of the form NAME=VALUE, each read by its query.

    Raises:
        UsageError: where a text has another form or names a query twice, where the task has no query of that name, or
            the query cannot read the value. It repeats no answer.
    """
    from hubbub.deploy.errors import as_usage_error
    from hubbub.protos.errors import TaskError, UsageError
    from hubbub.queries.errors import AnswerError

    answers: dict[str, Value] = {}
    for number, word in enumerate(words, 1):
        name, found, value = word.partition("=")
        if not found or name in answers:
            raise UsageError(f"answer {number} of {len(words)} is not NAME=VALUE, or names a query twice")
        with as_usage_error(TaskError, AnswerError):
            answers[name] = task.queries[task.query_index(name)].question.parse(value)
    return answers
