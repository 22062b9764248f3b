"""Answers a round for many made-up devices, to try a deployment: `hubbub rehearse CLIENT.toml`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hubbub.cli.options.data_files import Decimal, Missing, Thousands, notation, print_notes
from hubbub.cli.terminal.output import Json, console, fail, failures, print_json
from hubbub.cli.terminal.progress import progress_bars

if TYPE_CHECKING:
    from hubbub.client import Summary
    from hubbub.deploy.load.rehearse import Answers, CertificateFiles
    from hubbub.planning.simulate.notation import Notation
    from hubbub.protos.task.task import Task


def command(
    settings: Annotated[Path, typer.Argument(metavar="CLIENT.toml", help="A client's settings file.")],
    devices: Annotated[
        int | None,
        typer.Option(
            "--devices", min=1, max=10_000_000, help="How many devices answer. [default: one per row of --data]"
        ),
    ] = None,
    answer: Annotated[
        list[str] | None,
        typer.Option(
            "--answer",
            metavar="NAME=VALUE",
            help="An answer; repeatable. Devices take turns through a query's answers.",
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option("--data", help="Take answers from this CSV, TSV, JSON Lines or Parquet file, a row per device."),
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(
            "--column", metavar="QUERY=COLUMN", help="The column of a query that has another name; repeatable."
        ),
    ] = None,
    decimal: Decimal = None,
    thousands: Thousands = None,
    missing: Missing = None,
    tickets: Annotated[
        Path | None,
        typer.Option(
            "--tickets", metavar="FILE", help="The devices' tickets, one per line, from `hubbub enroll --devices`."
        ),
    ] = None,
    certificates: Annotated[
        Path | None,
        typer.Option(
            "--certificates", metavar="DIR", help="The devices' TLS certificates: pairs of NAME.pem and NAME.key."
        ),
    ] = None,
    round_number: Annotated[
        int | None, typer.Option("--round", min=0, help="The round's number. [default: the current round]")
    ] = None,
    as_json: Json = False,
) -> None:
    """Answer a task's round for many made-up devices.

    Use it to try a deployment whose services run. Each device's answers are randomized and sealed as by `hubbub
    submit`, and sent over TLS until they are acknowledged. Nothing of the devices is stored, so a second run sends as
    many submissions again.

    The services cannot distinguish these devices from people: never rehearse in a round whose results matter. If the
    task admits enrolled devices, give each run new tickets, because a run redeems them. If the task admits by TLS
    certificates, each device has one submission a round.

    Example: hubbub rehearse deployment/client/client.toml --devices 1000 --answer theme=dark --answer theme=light
    """
    with failures(as_json):
        import asyncio
        import functools

        from hubbub.client import read_settings
        from hubbub.deploy.files import signed_task_in
        from hubbub.deploy.load.rehearse import send

        # The variables are those of one device, which this command is not.
        files = read_settings(settings, environment={})
        task = signed_task_in(files.task).task
        written = notation(decimal, thousands, missing, data is not None)
        count, answers = _answers(task, devices, answer or [], data, column or [], written)
        enrolled, certified = _tickets(task, tickets, count), _certificates(task, certificates, count)
        with progress_bars(as_json) as bars:
            bar = bars.add_task("devices encode, randomize, seal, submit", total=count)
            advance = functools.partial(bars.advance, bar)
            summary = asyncio.run(send(files, answers, round_number, advance, enrolled, certified))
        _print(summary, task, as_json)


def _tickets(task: Task, file: Path | None, devices: int) -> list[bytes]:
    """Return the devices' tickets, if the task admits only enrolled devices."""
    from hubbub.deploy.pki.tickets import read_tickets
    from hubbub.protos.errors import UsageError
    from hubbub.protos.task.admission import Mode

    if task.admission.mode is not Mode.ENROLLED:
        return []
    found = [] if file is None else [ticket.encode() for ticket in read_tickets(file)]
    if len(found) < devices:
        there = "there is 1 ticket" if len(found) == 1 else f"there are {len(found)} tickets"
        wanted = "1 device" if devices == 1 else f"{devices} devices"
        raise UsageError(
            f"task {task.name} admits enrolled devices, and {there} for {wanted}; "
            f"make tickets with `hubbub enroll FILE --devices {devices}`, where FILE is a new file, and give it with "
            "--tickets"
        )
    return found[:devices]


def _certificates(task: Task, folder: Path | None, devices: int) -> list[CertificateFiles]:
    """Return the devices' TLS certificates, if the task admits by them."""
    from hubbub.deploy.load.rehearse import certificates_in
    from hubbub.protos.errors import UsageError
    from hubbub.protos.task.admission import Mode

    if task.admission.mode is not Mode.MTLS:
        return []
    found = [] if folder is None else certificates_in(folder)
    if len(found) < devices:
        raise UsageError(
            f"task {task.name} admits by TLS certificates, and there are {len(found)} for {devices} devices; have one "
            "issued for each, and give the folder of NAME.pem and NAME.key with --certificates"
        )
    return found[:devices]


def _answers(
    task: Task, devices: int | None, words: list[str], data: Path | None, columns: list[str], written: Notation
) -> tuple[int, Iterable[Answers]]:
    """Return the number of devices and their answers: the first rows of a file, or the answers given."""
    from hubbub.protos.errors import UsageError

    if data is None:
        if devices is None or columns:
            raise UsageError(
                "it is not said what devices answer; give --devices and an --answer for each query, or --data with one "
                "row per device"
            )
        return devices, _in_turn(task, words, devices)
    if words:
        raise UsageError("--answer and --data exclude each other; give one of them")
    from hubbub.planning.simulate.dataset import first_rows, read_answers

    dataset = read_answers(task.name, [asked.question for asked in task.asked], data, columns, written)
    print_notes(dataset)
    chosen = first_rows(dataset, devices)
    return chosen.devices, chosen.rows()


def _in_turn(task: Task, words: list[str], devices: int) -> Iterable[Answers]:
    """Return the answers that are stated, and say which of them devices will clip."""
    from hubbub.cli.commands.submit import read_answers
    from hubbub.cli.options.device import say_clipped
    from hubbub.deploy.load.rehearse import answers_in_turn

    answers = answers_in_turn(task, words, devices)
    say_clipped(task, [read_answers(task, [word]) for word in words])
    return answers


def _print(summary: Summary, task: Task, as_json: bool) -> None:
    refused = ", ".join(f"{count} {reason}" for reason, count in sorted(summary.refused.items()))
    if as_json:
        counts = {"accepted": summary.accepted, "refused": dict(summary.refused), "messages": summary.messages}
        print_json({"task": task.name, "task_id": task.id.hex(), **counts})
    else:
        accepted = "1 device" if summary.accepted == 1 else f"{summary.accepted} devices"
        console().print(f"acknowledged: {accepted} of task {task.name}", soft_wrap=True)
    if refused:
        first, total = next(iter(summary.messages.values())), summary.refused.total()
        fail(f"{'1 device was' if total == 1 else f'{total} devices were'} refused ({refused}): {first}")
