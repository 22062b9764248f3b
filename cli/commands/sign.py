"""Signs a planned task, an entry of a feed or a succession: `hubbub sign FILE.json`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hubbub.cli.terminal.output import Json, console, failures, print_json, progress_console

if TYPE_CHECKING:
    from hubbub.protos.identity.keys import Identity
    from hubbub.protos.identity.successions import Succession
    from hubbub.protos.task.feed.entry import FeedEntry
    from hubbub.protos.task.signed_task import SignedTask


def command(
    task: Annotated[
        Path,
        typer.Argument(
            metavar="TASK.json",
            help="A task from `hubbub plan`, an entry from `hubbub tasks`, or a succession from `hubbub keys`.",
        ),
    ],
    key: Annotated[Path, typer.Option("--key", help="PEM file of the signer's private key.")],
    explain: Annotated[bool, typer.Option("--explain", help="Also print every member that is signed.")] = False,
    as_json: Json = False,
) -> None:
    """Sign a planned task as its operator or its shuffler.

    The key decides as which of them you sign. The signature is added to the file. The command prints what you sign:
    the promise, rounds, devices, questions and parties. Read it: if it is not what was agreed, do not pass the file on.
    If two sign one file at once, the second waits for the first.

    A succession of identities is signed in the same way, by the party that it names as its witness. Before you sign it,
    ask the party for the fingerprint of its new identity, over another channel than the file came by, and compare.

    An entry of a feed is signed in the same way, together with the task that it publishes. It is for good: services and
    devices that have taken an entry refuse another one with its number.

    Signing warns of a delta above 0.1 / minimum_reports, and prints the task's reason for it. If the shuffler's noise
    by itself does not keep the task's epsilon, it says so, and who else must be honest.

    Example: hubbub sign deployment/operator/task.json --key deployment/operator/identity.pem
    """
    with failures(as_json):
        from hubbub.cli.tables.signed_task import every_member, print_task
        from hubbub.planning.task_words import noise_by_itself
        from hubbub.protos.identity.keys import Identity
        from hubbub.protos.identity.pem import readable_by_others
        from hubbub.protos.identity.successions import Succession
        from hubbub.protos.task.delta_warnings import delta_warning
        from hubbub.protos.task.feed.entry import FeedEntry
        from hubbub.protos.task.task import task_content

        identity = Identity.load(key)
        exposed = readable_by_others(key)
        if exposed:
            progress_console().print(f"warning: {exposed}", markup=False, soft_wrap=True)
        signed = _signed(task, identity)
        if isinstance(signed, Succession):
            _tell_succession(signed, as_json)
            return
        if isinstance(signed, FeedEntry):
            _tell_entry(signed, explain, as_json)
            return
        # After it is saved: whoever reads only the first lines, as `head` does, has signed all the same.
        if not as_json:
            print_task(console(), signed.task)
            for line in every_member(task_content(signed.task)) if explain else ():
                console().print(line, markup=False, soft_wrap=True)
        warning = delta_warning(signed.task)
        if warning is not None:
            progress_console().print(warning, markup=False, soft_wrap=True)
        pairs = (("operator", signed.operator_signature), ("shuffler", signed.shuffler_signature))
        missing = [role for role, signature in pairs if signature is None]
        if as_json:
            members = {"task": signed.task.name, "task_id": signed.task.id.hex(), "missing": missing}
            print_json({**members, "weak_noise": noise_by_itself(signed.task)[1]})
            return
        console().print(f"signed task {signed.task.name} ({signed.task.id.hex()})", markup=False, soft_wrap=True)
        console().print(_still(missing), markup=False, soft_wrap=True)


def _signed(path: Path, identity: Identity) -> Succession | FeedEntry | SignedTask:
    """Add a signature to the file; return what is then in it."""
    from hubbub.deploy.files import changing, feed_entry_in, save, signed_task_in, succession_in

    # Both parties may sign at once where they share a folder: neither signature is lost.
    with changing(path):
        signed = (succession_in(path) or feed_entry_in(path) or signed_task_in(path)).signed_by(identity)
        save(path, signed.encode())
    return signed


def _still(missing: list[str]) -> str:
    return f"still to sign: {' and '.join(missing)}" if missing else "all have signed"


def _tell_entry(entry: FeedEntry, explain: bool, as_json: bool) -> None:
    from hubbub.cli.tables.signed_task import every_member, print_task
    from hubbub.protos.task.delta_warnings import delta_warning
    from hubbub.protos.task.task import task_content

    task = None if entry.signed is None else entry.signed.task
    if task is not None and (warning := delta_warning(task)) is not None:
        progress_console().print(warning, markup=False, soft_wrap=True)
    if as_json:
        members = {"number": entry.number, "action": entry.body["action"], "after": entry.after}
        budget = None if entry.budget is None else entry.budget.content()
        print_json({**members, "task_id": entry.task_id.hex(), "missing": entry.missing, "purpose": budget})
        return
    if task is not None:
        print_task(console(), task)
        for line in every_member(task_content(task)) if explain else ():
            console().print(line, markup=False, soft_wrap=True)
    if entry.budget is not None:
        console().print(f"budget of its purpose: {entry.budget.in_words()}", markup=False, soft_wrap=True)
    named = entry.task_id.hex() if task is None else task.name
    console().print(f"signed {entry.name}: {entry.in_words(named)}", markup=False, soft_wrap=True)
    console().print(_still(entry.missing), markup=False, soft_wrap=True)


def _tell_succession(signed: Succession, as_json: bool) -> None:
    from hubbub.protos.identity.documents import fingerprint
    from hubbub.protos.task.schedule import at

    new, begins = fingerprint(signed.new), at(signed.begins)
    if as_json:
        print_json({"role": signed.role.value, "new": new, "begins": begins, "missing": signed.missing})
        return
    console().print(f"signed that {new} is the {signed.role.value} from {begins} on", markup=False, soft_wrap=True)
    console().print(_still(signed.missing), markup=False, soft_wrap=True)
