"""Signs a planned task, an entry of a feed or a succession: `hubbub sign FILE.json`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hubbub.cli.terminal.output import Json, console, failures, print_json, progress_console
from hubbub.deploy.errors import OutputLost

if TYPE_CHECKING:
    from hubbub.protos.identity.keys import Identity
    from hubbub.protos.identity.successions import Succession
    from hubbub.protos.task.feed.entry import FeedEntry
    from hubbub.protos.task.signed_task import SignedTask
    from hubbub.protos.task.task import Task

    Signable = Succession | FeedEntry | SignedTask


def command(
    task: Annotated[
        Path,
        typer.Argument(
            metavar="TASK.json",
            help="A task from `hubbub plan`, an entry from `hubbub tasks`, or a succession from `hubbub keys`.",
        ),
    ],
    key: Annotated[
        Path | None,
        typer.Option("--key", metavar="PEM", help="PEM file of the signer's private key. [default: none; for --show]"),
    ] = None,
    show: Annotated[bool, typer.Option("--show", help="Print what would be signed, and sign nothing.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Also print every member that is signed.")] = False,
    as_json: Json = False,
) -> None:
    """Sign a planned task as its operator or its shuffler.

    The key decides as which of them you sign. The command prints what you sign: the promise, rounds, devices, questions
    and parties. Then it adds the signature to the file. To read first and sign later, give --show without a key: it
    prints the same, and signs nothing. If what you read is not what was agreed, do not sign it, or do not pass it on.
    If two sign one file at once, the second waits for the first.

    A succession of identities is signed in the same way, by the party that it names as its witness. Before you sign it,
    ask the party for the fingerprint of its new identity, over another channel than the file came by, and compare.

    An entry of a feed is signed in the same way, together with the task that it publishes. It is for good: services and
    devices that have taken an entry refuse another one with its number.

    Signing warns of a delta above 0.1 / minimum_reports, and prints the task's reason for it. If the shuffler's noise
    by itself does not keep the task's epsilon, it says so, and who else must be honest.

    Examples: hubbub sign deployment/operator/task.json --show; hubbub sign deployment/operator/task.json --key
    deployment/operator/identity.pem
    """
    with failures(as_json):
        from hubbub.protos.errors import UsageError

        if (key is None) is not show:
            raise UsageError("give the signer's private key with --key to sign, or --show alone to sign nothing")
        identity = None if key is None else _signer(key)
        found = _read(task)
        if identity is not None:
            # Whoever is no party is told so before anything is shown.
            found.signed_by(identity)
        lost = _shown(found, explain, as_json)
        signed = found if identity is None else _signed(task, found, identity)
        if lost is not None:
            raise lost
        if as_json:
            print_json(_document(signed))
            return
        for line in _told(signed, identity is not None):
            console().print(line, markup=False, soft_wrap=True)


def _signer(key: Path) -> Identity:
    from hubbub.protos.identity.keys import Identity
    from hubbub.protos.identity.pem import readable_by_others

    identity = Identity.load(key)
    if exposed := readable_by_others(key):
        progress_console().print(f"warning: {exposed}", markup=False, soft_wrap=True)
    return identity


def _read(path: Path) -> Signable:
    from hubbub.deploy.files import feed_entry_in, signed_task_in, succession_in

    return succession_in(path) or feed_entry_in(path) or signed_task_in(path)


def _signed(path: Path, shown: Signable, identity: Identity) -> Signable:
    """Add a signature to the file; return what is then in it.

    Raises:
        HubbubError: if it has something else by now than what was shown.
    """
    from hubbub.deploy.files import changing, save
    from hubbub.protos.errors import HubbubError

    # Both parties may sign at once where they share a folder: neither signature is lost.
    with changing(path):
        signed = _read(path).signed_by(identity)
        if _content(signed) != _content(shown):
            raise HubbubError(f"{path} was changed while it was shown, so nothing was signed; run the command again")
        save(path, signed.encode())
    return signed


def _content(document: Signable) -> Any:
    """Return what signatures are of; an entry names its task by a digest of it."""
    from hubbub.protos.task.signed_task import SignedTask

    return document.task.canonical if isinstance(document, SignedTask) else document.body


def _task_of(document: Signable) -> Task | None:
    from hubbub.protos.identity.successions import Succession
    from hubbub.protos.task.signed_task import SignedTask

    if isinstance(document, Succession):
        return None
    signed = document if isinstance(document, SignedTask) else document.signed
    return None if signed is None else signed.task


def _shown(document: Signable, explain: bool, as_json: bool) -> OutputLost | None:
    """Print what is signed; return what was raised if nobody reads stdout.

    Whoever reads only the first lines, as `head` does, signs all the same.
    """
    from hubbub.cli.tables.signed_task import every_member, print_task
    from hubbub.protos.task.delta_warnings import delta_warning
    from hubbub.protos.task.feed.entry import FeedEntry
    from hubbub.protos.task.task import task_content

    task = _task_of(document)
    if task is not None and (warning := delta_warning(task)) is not None:
        progress_console().print(warning, markup=False, soft_wrap=True)
    if as_json:
        return None
    try:
        if task is not None:
            print_task(console(), task)
            for line in every_member(task_content(task)) if explain else ():
                console().print(line, markup=False, soft_wrap=True)
        if isinstance(document, FeedEntry) and document.budget is not None:
            console().print(f"budget of its purpose: {document.budget.in_words()}", markup=False, soft_wrap=True)
        # Before the signature is made, also where lines are kept until there are many.
        sys.stdout.flush()
    except OutputLost as error:
        return error
    return None


def _told(document: Signable, signs: bool) -> Iterator[str]:
    """Yield what was signed, or would be, in a line, and who has still to sign."""
    from hubbub.protos.identity.documents import fingerprint
    from hubbub.protos.identity.successions import Succession
    from hubbub.protos.task.schedule import at
    from hubbub.protos.task.signed_task import SignedTask

    task = _task_of(document)
    if isinstance(document, Succession):
        what = f"that {fingerprint(document.new)} is the {document.role.value} from {at(document.begins)} on"
    elif isinstance(document, SignedTask):
        what = f"task {document.task.name} ({document.task.id.hex()})"
    else:
        what = f"{document.name}: {document.in_words(document.task_id.hex() if task is None else task.name)}"
    missing = _missing(document)
    yield f"signed {what}" if signs else f"nothing was signed; to sign is {what}"
    yield f"still to sign: {' and '.join(missing)}" if missing else "all have signed"


def _missing(document: Signable) -> list[str]:
    from hubbub.protos.task.signed_task import SignedTask

    if not isinstance(document, SignedTask):
        return document.missing
    pairs = (("operator", document.operator_signature), ("shuffler", document.shuffler_signature))
    return [role for role, signature in pairs if signature is None]


def _document(document: Signable) -> dict[str, Any]:
    from hubbub.planning.task_words import noise_by_itself
    from hubbub.protos.identity.documents import fingerprint
    from hubbub.protos.identity.successions import Succession
    from hubbub.protos.task.schedule import at
    from hubbub.protos.task.signed_task import SignedTask

    missing = _missing(document)
    members: dict[str, Any]
    if isinstance(document, Succession):
        new, begins = fingerprint(document.new), at(document.begins)
        return {"role": document.role.value, "new": new, "begins": begins, "missing": missing}
    if isinstance(document, SignedTask):
        members = {"task": document.task.name, "task_id": document.task.id.hex(), "missing": missing}
        return {**members, "weak_noise": noise_by_itself(document.task)[1]}
    budget = None if document.budget is None else document.budget.content()
    entry = {"number": document.number, "action": document.body["action"], "after": document.after}
    return {**entry, "task_id": document.task_id.hex(), "missing": missing, "purpose": budget}
