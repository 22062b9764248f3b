"""`hubbub submit CLIENT.toml`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hubbub.deploy.output import Json, console, failures, print_json

if TYPE_CHECKING:
    from hubbub.protos.task import Task
    from hubbub.queries.question import Value


def command(
    settings: Annotated[Path, typer.Argument(metavar="CLIENT.toml", help="The client's settings file.")],
    answer: Annotated[
        list[str] | None, typer.Option("--answer", metavar="NAME=VALUE", help="An answer; repeat for each query.")
    ] = None,
    round_number: Annotated[
        int | None, typer.Option("--round", min=0, help="Which round; default: the current.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Send one device's answers: randomized and sealed here, stored before they are sent, sent until acknowledged.

    A query that is not named is answered with "no answer", where the task allows that. A second call for the same round
    sends nothing new: it prints the first receipt.

    Example: hubbub submit deployment/client/client.toml --answer theme=dark --answer session=12.5
    """
    with failures(as_json):
        from hubbub.client import Device
        from hubbub.deploy.settings import ClientSettings
        from hubbub.service.settings import load

        files = load(settings, ClientSettings, "client")
        device = Device(
            files.task.read_bytes(),
            operator_key=files.operator_key.read_bytes(),
            shuffler_key=files.shuffler_key.read_bytes(),
            state=files.state,
            shuffler=files.shuffler,
            authority=files.authority,
        )
        receipt = device.submit_blocking(read_answers(device.task, answer or []), round_number)
        if as_json:
            print_json({"task": device.task.name, "task_id": device.task.id.hex(), "round": receipt.round})
        else:
            console().print(f"acknowledged: task {device.task.name}, round {receipt.round}", markup=False)


def read_answers(task: Task, words: list[str]) -> dict[str, Value]:
    """Return the answers in texts of the form NAME=VALUE, each read by its query.

    Raises:
        BadUse: where a text has another form, or names a query twice.
        TaskError: where the task has no query of that name.
        AnswerError: where the query cannot read the value.
    """
    from hubbub.deploy.errors import BadUse

    answers: dict[str, Value] = {}
    for word in words:
        name, found, value = word.partition("=")
        if not found or name in answers:
            raise BadUse(f"--answer {word!r} is not NAME=VALUE, or names a query twice")
        answers[name] = task.queries[task.query_index(name)].question.parse(value)
    return answers
