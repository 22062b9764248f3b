"""Tries a client in any language against a shuffler that explains: `hubbub conformance [-- COMMAND…]`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hubbub.cli.terminal.output import Json, console, failures, print_json, progress_console

if TYPE_CHECKING:
    from collections.abc import Callable

    from hubbub.deploy.conformance.judge import Observation
    from hubbub.deploy.conformance.trial import Verdict
    from hubbub.protos.task.task import Draft


def command(
    client: Annotated[
        list[str] | None,
        typer.Argument(metavar="-- COMMAND", help="The client to run. [default: wait for clients until Ctrl-C]"),
    ] = None,
    draft: Annotated[
        Path | None,
        typer.Option("--task", metavar="DRAFT.toml", help="A draft; it begins now. [default: two questions, enrolled]"),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="New folder of the client's files. [default: temporary]")
    ] = None,
    listen: Annotated[
        str, typer.Option("--listen", metavar="HOST:PORT", help="Where HTTPS is answered; port 0 takes a free one.")
    ] = "127.0.0.1:0",
    hops: Annotated[
        int, typer.Option("--hops", help="Shufflers of the task's chain; 1 is the shuffler alone.", min=1, max=8)
    ] = 1,
    logged: Annotated[
        bool, typer.Option("--log", help="The task demands a transparency log, and wrong proofs must be refused.")
    ] = False,
    no_faults: Annotated[
        bool, typer.Option("--no-faults", help="Refuse no first tries: what a client does then is not looked at.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Try a client in any language: answer it, open what it sends, and say at once what is wrong.

    It makes a task, round keys, a TLS authority and tickets in a folder, and answers by HTTPS and by gRPC on this
    machine. conformance.json in that folder names the files and the addresses. A client that is run gets its path in
    the variable CONFORMANCE.

    The first tries of each device are refused: as overloaded, as if the answer was lost, and with a credential that is
    no longer known. The same bytes must come again. Nothing here is a promise of privacy: this command has all keys,
    and it cannot see whether a client draws its reports by the right law. tests/vectors/wire/answers.json is for that.

    With --log, or with a draft that demands a log, the command makes a log and its witnesses. The client gets the
    proof. Then it is run with tasks whose proofs are wrong, each in one thing: it must do nothing for these.

    The exit status is 0 if everything was seen, and nothing was wrong.

    Example: hubbub conformance -- node client.mjs
    """
    with failures(as_json):
        import asyncio
        import tempfile
        from dataclasses import replace

        from hubbub.deploy.conformance.default_draft import beginning_now, default_draft
        from hubbub.deploy.files import draft_in
        from hubbub.deploy.new_folder import check_new

        chosen = default_draft() if draft is None else beginning_now(draft_in(draft))
        chosen = replace(chosen, shufflers=hops)
        if draft is not None:
            progress_console().print("planning the task: many questions take a minute or two")
        with tempfile.TemporaryDirectory(prefix="hubbub-conformance-") as made:
            folder = Path(made) / "client" if out is None else out
            check_new(folder)
            verdict, status = asyncio.run(
                _tried(chosen, folder, listen, client or [], faults=not no_faults, logged=logged)
            )
        if as_json:
            print_json({**verdict.as_json(), "exit_status": status})
        else:
            _print(verdict, status)
        if status or not verdict.is_good:
            raise typer.Exit(1)


async def _tried(
    draft: Draft, folder: Path, listen: str, client: list[str], *, faults: bool, logged: bool
) -> tuple[Verdict, int | None]:
    from hubbub.deploy.conformance.trial import FILE, trial
    from hubbub.service.transport.ports import asked_to_stop

    async with trial(draft, folder, listen, _sayer(), faults=faults, logged=logged) as running:
        if client:
            status: int | None = await running.run(client)
        else:
            with asked_to_stop(None) as stop:
                told = f"{running.folder / FILE} has what a client needs; Ctrl-C ends it"
                progress_console().print(told, markup=False, soft_wrap=True)
                await stop.wait()
            status = None
    return running.verdict, status


def _sayer() -> Callable[[Observation], None]:
    """Return what tells each check when it is first seen right, and everything that is wrong."""
    from hubbub.deploy.conformance.judge import CHECKS

    told = set[str]()

    def say(finding: Observation) -> None:
        if finding.is_good and finding.check in told:
            return
        told.add(finding.check)
        text = f"right: it {CHECKS[finding.check]}" if finding.is_good else f"wrong: {finding.check}: {finding.problem}"
        progress_console().print(text, markup=False, soft_wrap=True)

    return say


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _print(verdict: Verdict, status: int | None) -> None:
    from hubbub.deploy.conformance.judge import CHECKS

    lines = [f"wrong, {_times(verdict.wrong[check])}: {check}: {text}" for check, text in verdict.problems.items()]
    lines += [f"not seen: that it {CHECKS[check]}" for check in verdict.unseen]
    if verdict.without_tls:
        lines.append(
            f"{verdict.without_tls} connections ended before TLS was agreed on: trust the certificate that "
            "conformance.json names as authority"
        )
    if status:
        lines.append(f"the client ended with status {status}")
    submissions = "1 submission" if verdict.accepted == 1 else f"{verdict.accepted:,} submissions"
    counted = f"{len(verdict.expected)} checks, {submissions} accepted"
    lines.append(f"{'it conforms' if verdict.is_good and not status else 'it does not conform'}: {counted}")
    for line in lines:
        console().print(line, markup=False, soft_wrap=True)
