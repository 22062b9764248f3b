"""Shows and changes a device's state: `hubbub device status`, `budget`, `preview`, `resend`, `opt-out` and so on."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hubbub.cli.commands.submit import AnswerOption, AnswersOption, RoundOption, given_answers
from hubbub.cli.options.device import LimitOption, SettingsFile, Timeout, checked_timeout, load_device
from hubbub.cli.terminal.output import Json, console, failures, print_json

if TYPE_CHECKING:
    from hubbub.client import DeviceRound, DeviceStatus

app = typer.Typer(
    no_args_is_help=True,
    help="""Show a device's answers and spending; resend, opt out, wipe.

    Example: hubbub device status deployment/client/client.toml
    """,
)


@app.command("status")
def status(settings: SettingsFile = None, as_json: Json = False) -> None:
    """Show this device's rounds, unsent answers and spent ε.

    It reads the device's state file and calls no service. ε_local is guaranteed by the device's own randomizer, even if
    shuffler and analyzer collude. The ε for the case that they do not collude is in each round's certificate.

    Example: hubbub device status deployment/client/client.toml
    """
    with failures(as_json):
        found = load_device(settings).status()
        if as_json:
            print_json(_document(found))
        else:
            for line in _lines(found):
                console().print(line, markup=False, soft_wrap=True)


@app.command("budget")
def budget(settings: SettingsFile = None, limit: LimitOption = None, as_json: Json = False) -> None:
    """Show the ε spent today and on each task, and the limits.

    It covers all tasks that share this state file. An answer counts once it is randomized, whether or not it was sent.
    A day is a UTC day. Central ε is what the task promises, or what an added certificate states.

    Example: hubbub device budget deployment/client/client.toml --limit epsilon_local_per_day=20
    """
    with failures(as_json):
        from hubbub.cli.tables.budget import budget_document, print_budget

        found = load_device(settings, limit or []).budget()
        if as_json:
            print_json(budget_document(found))
        else:
            print_budget(console(), found)


@app.command("preview")
def preview(
    settings: SettingsFile = None,
    answer: AnswerOption = None,
    answers: AnswersOption = None,
    round_number: RoundOption = None,
    limit: LimitOption = None,
    as_json: Json = False,
) -> None:
    """Show what `hubbub submit` would send for these answers. Nothing is sent, stored or spent.

    It shows how each answer is encoded, how often a report is true, one report, and what the round costs. It is for
    made-up answers: what it prints contains them, and every call draws reports anew. Reports of many previews together
    reveal an answer.

    Example: hubbub device preview deployment/client/client.toml --answers answers.txt
    """
    with failures(as_json):
        from hubbub.cli.tables.preview import preview_document, print_preview
        from hubbub.deploy.errors import as_usage_error
        from hubbub.queries.errors import AnswerError

        device = load_device(settings, limit or [])
        given = given_answers(device.task, answer or [], answers)
        with as_usage_error(AnswerError):
            found = device.preview(given, round_number)
        if as_json:
            print_json(preview_document(found))
        else:
            print_preview(console(), found)


@app.command("add-certificate")
def add_certificate(
    settings: Annotated[Path, typer.Argument(metavar="CLIENT.toml", help="The client's settings file.")],
    certificate: Annotated[Path, typer.Argument(metavar="CERTIFICATE.json", help="A round's certificate.")],
    as_json: Json = False,
) -> None:
    """Count a round's central ε as its certificate states it.

    It replaces what the task promises. This command checks the certificate's signatures only; run `hubbub verify` first
    to check its numbers.

    Example: hubbub device add-certificate deployment/client/client.toml certificate.json
    """
    with failures(as_json):
        certified = load_device(settings).add_certificate(certificate.read_bytes())
        everything = certified.epsilon_all_rounds
        document = {"round": certified.round, "epsilon": certified.epsilon, "epsilon_all_rounds": everything}
        so_far = "not known at the minimum" if everything is None else f"{everything:g} at the minimum"
        text = f"added: round {certified.round} has ε {certified.epsilon:g}, all rounds so far {so_far}"
        _say(document | {"rounds": list(certified.rounds)}, text, as_json)


@app.command("resend")
def resend(
    settings: SettingsFile = None,
    timeout: Timeout = None,
    early: Annotated[bool, typer.Option("--early", help="Also send what has a send time in the future.")] = False,
    as_json: Json = False,
) -> None:
    """Send stored answers that were not acknowledged yet.

    Answers of a round that is over are not sent. Answers with a send time in the future are sent only with --early.

    Example: hubbub device resend deployment/client/client.toml
    """
    with failures(as_json):
        seconds = checked_timeout(timeout)
        device = load_device(settings)
        rounds = [receipt.round for receipt in device.resend_blocking(timeout=seconds, early=early)]
        if as_json:
            print_json({"task": device.task.name, "task_id": device.task.id.hex(), "acknowledged": rounds})
        elif rounds:
            listed = ", ".join(map(str, rounds))
            console().print(f"acknowledged: task {device.task.name}, round {listed}", markup=False, soft_wrap=True)
        else:
            console().print("nothing is due to be sent")


@app.command("opt-out")
def opt_out(settings: SettingsFile = None, as_json: Json = False) -> None:
    """Send nothing from now on, and erase unsent answers.

    This applies to every task that shares this state file, until `hubbub device opt-in`.

    Example: hubbub device opt-out deployment/client/client.toml
    """
    with failures(as_json):
        load_device(settings).opt_out()
        _say({"opted_out": True}, "opted out: nothing is taken or sent until `hubbub device opt-in`", as_json)


@app.command("opt-in")
def opt_in(settings: SettingsFile = None, as_json: Json = False) -> None:
    """Take and send answers again, after an opt-out.

    Example: hubbub device opt-in deployment/client/client.toml
    """
    with failures(as_json):
        load_device(settings).opt_in()
        _say({"opted_out": False}, "opted in: answers are taken and sent again", as_json)


@app.command("wipe")
def wipe(settings: SettingsFile = None, as_json: Json = False) -> None:
    """Erase this device's stored reports, for all tasks.

    Sealed bytes and submission ids are erased too. The device still remembers which rounds it answered until they are
    over. It remembers for good how many it answered and what it spent. Otherwise it could answer a round twice, which
    costs privacy. Its credential stays too, and whether it opted out.

    Example: hubbub device wipe deployment/client/client.toml
    """
    with failures(as_json):
        load_device(settings).wipe()
        text = "wiped: what stays is which rounds were answered, what they cost, the credential and an opt-out"
        _say({"wiped": True}, text, as_json)


def _say(document: dict[str, Any], text: str, as_json: bool) -> None:
    if as_json:
        print_json(document)
    else:
        console().print(text, markup=False, soft_wrap=True)


def _document(found: DeviceStatus) -> dict[str, Any]:
    spending = found.spending
    return {
        "task": found.task,
        "task_id": found.task_id,
        "current": None if found.current is None else _round(found.current),
        "next": None if found.next is None else _round(found.next),
        "waiting": list(found.waiting),
        "opted_out": found.opted_out,
        "rounds_sent": spending.rounds,
        "rounds_unsent": spending.unsent,
        "rounds_expired": spending.expired,
        "epsilon_local_round": spending.epsilon_local_round,
        "epsilon_local_spent": spending.epsilon_local,
        "epsilon_local_left": spending.epsilon_local_left,
        "promise": {"epsilon": found.epsilon, "delta": found.delta, "epsilon_total": found.epsilon_total},
        "delta_warning": found.delta_warning,
    }


def _round(one: DeviceRound) -> dict[str, Any]:
    times = {"opens": _time(one.opens), "ends": _time(one.ends), "cut": _time(one.cut)}
    send_time = None if one.send_time is None else _time(int(one.send_time))
    return {"round": one.number, **times, "answer": one.answer.value, "reason": one.reason, "send_time": send_time}


def _lines(found: DeviceStatus) -> list[str]:
    spending, total = found.spending, found.epsilon_total
    rounds = "1 round" if spending.rounds == 1 else f"{spending.rounds} rounds"
    spent = f"{spending.epsilon_local:.6g} spent in {rounds}, {spending.epsilon_local_round:.6g} a round"
    cap = "" if total is None else f", with a cap of {total:g} on all rounds"
    waiting = ", ".join(f"round {number}" for number in found.waiting) or "nothing"
    late = "1 round was" if spending.expired == 1 else f"{spending.expired} rounds were"
    lost = f" ({late} over before being acknowledged)" if spending.expired else ""
    return [
        f"task      {found.task} ({found.task_id})",
        f"now       {_described(found.current)}",
        f"next      {_described(found.next)}",
        f"to send   {waiting}{lost}",
        f"opted out {'yes: nothing is taken or sent' if found.opted_out else 'no'}",
        f"ε_local   {spent}; at most {spending.epsilon_local_left:.6g} more in the rounds to come",
        f"promise   ε = {found.epsilon:g} at δ = {found.delta:g} a round{cap}, if the services follow the protocol",
        *(() if found.delta_warning is None else (found.delta_warning,)),
    ]


def _described(one: DeviceRound | None) -> str:
    if one is None:
        return "no round"
    reason = "" if one.reason is None else f" ({one.reason})"
    send_time = "" if one.send_time is None else f", not before {_time(int(one.send_time))}"
    return f"round {one.number}, {_time(one.opens)} to {_time(one.ends)}: {_WORDS[one.answer.value]}{reason}{send_time}"


_WORDS = {
    "none": "not answered",
    "kept": "answered, to be sealed and sent",
    "sealed": "answered, sealed, no receipt yet",
    "acknowledged": "answered and acknowledged",
    "refused": "answered, refused by the shuffler, discarded",
    "erased": "answered, erased on this device",
    "over": "over on this device",
}
"""The outcome of a round's answers, in words."""


def _time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
