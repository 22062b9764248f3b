"""Publishes and ends tasks by the deployment's feed, and lists it: `hubbub tasks publish|end|list`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hubbub.cli.terminal.output import Json, console, failures, print_json, progress_console

if TYPE_CHECKING:
    from hubbub.protos.task.feed.budgets import PurposeBudget
    from hubbub.protos.task.feed.entry import FeedEntry
    from hubbub.protos.task.feed.feed import Feed
    from hubbub.protos.task.signed_task import SignedTask

app = typer.Typer(
    no_args_is_help=True,
    help="""Publish and end tasks while services run, and list them.

    A feed is a folder of numbered entries. Each publishes a task, or ends one after a round. The operator and the
    shuffler sign each entry. Services that name the folder in their settings (`feed`) take new entries within seconds,
    without a restart.

    Example: hubbub tasks list deployment/operator/feed
    """,
)

FeedFolder = Annotated[Path, typer.Argument(metavar="FEED", help="The feed's folder; the first entry makes it.")]
Keys = Annotated[
    list[Path],
    typer.Option(
        "--key",
        metavar="PEM",
        help="Private key of a signer, the operator or the shuffler; repeatable. `hubbub sign` adds the other later.",
    ),
]


@app.command("publish")
def publish(
    feed: FeedFolder,
    task: Annotated[Path, typer.Argument(metavar="TASK.json", help="The task, from `hubbub plan`.")],
    key: Keys,
    purpose: Annotated[
        str | None,
        typer.Option(
            "--purpose",
            metavar="NAME",
            help="The purpose whose budget the task shares with earlier and later ones. [default: none]",
        ),
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(
            "--purpose-epsilon",
            metavar="EPSILON",
            min=0.0,
            help="The ε that all tasks of the purpose together may spend. [default: as its first entry states]",
        ),
    ] = None,
    delta: Annotated[
        float | None,
        typer.Option("--purpose-delta", metavar="DELTA", min=0.0, max=1.0, help="The δ of that budget, likewise."),
    ] = None,
    log_proof: Annotated[
        Path | None,
        typer.Option(
            "--log-proof",
            metavar="PROOF",
            help="Proof that the task is in the log that it demands, from `hubbub log prove`. [default: none]",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Add an entry that publishes a task.

    With --purpose, the task takes a share of a budget: its `epsilon_total`, at its δ. The first entry of a purpose
    states the budget for good. Before it signs, the command prints what is left, and refuses a task beyond that.

    A task that demands a transparency log (`[log]`) needs --log-proof. Both parties sign the task first, then it is
    added to the log, and witnesses sign. Services and devices refuse the entry without its proof.

    The keys sign the entry, and the task if they have not signed it yet. Services take the entry once both parties
    have signed both. If you have one of the keys, pass the printed file on: the other party runs `hubbub sign` on it,
    and reads there what it signs.

    Example: hubbub tasks publish deployment/operator/feed deployment/operator/colors.json --key
    deployment/operator/identity.pem
    """
    with failures(as_json):
        from hubbub.deploy.files import signed_task_in
        from hubbub.protos.errors import UsageError
        from hubbub.protos.task.feed.budgets import PurposeSpending

        signed = signed_task_in(task)
        found = _feed(feed)
        budget = _budget(found, purpose, epsilon, delta)
        if budget is not None and not as_json:
            before = found.spending.get(budget.purpose, PurposeSpending(budget))
            console().print(f"purpose {budget.purpose}: {before.in_words()}", markup=False, soft_wrap=True)
        proof = None if log_proof is None else log_proof.read_bytes()
        if proof is not None and signed.task.log is None:
            raise UsageError(f"task {signed.task.name} demands no log; leave --log-proof out, or name the other task")
        _add(feed, found, found.publishing(signed, budget, proof), key, as_json)


@app.command("end")
def end(
    feed: FeedFolder,
    task: Annotated[
        str, typer.Argument(metavar="TASK", help="The task's name, or at least the first 8 digits of its id.")
    ],
    key: Keys,
    after: Annotated[
        int | None,
        typer.Option(
            "--after",
            metavar="ROUND",
            min=-1,
            help="The task's last round; -1 for none. [default: the round that is open now]",
        ),
    ] = None,
    operator_key: Annotated[
        Path | None,
        typer.Option(
            "--operator-key",
            metavar="PUB.pem",
            help="The operator's public key, if it was rotated since the last entry. [default: as in that entry]",
        ),
    ] = None,
    shuffler_key: Annotated[
        Path | None,
        typer.Option("--shuffler-key", metavar="PUB.pem", help="The shuffler's public key, likewise."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Add an entry that ends a task after a round.

    Rounds that are open then still close, and their results are published. No later round begins, and devices that
    submit to one are told that the task has ended. An end is final.

    Example: hubbub tasks end deployment/operator/feed colors --after 6 --key deployment/operator/identity.pem
    """
    with failures(as_json):
        from hubbub.protos.identity.keys import load_public

        found = _feed(feed)
        signed = _named(found, task)
        last = _open_now(signed) if after is None else after
        who = [None if each is None else load_public(each) for each in (operator_key, shuffler_key)]
        _add(feed, found, found.ending(signed.task.id, last, *who), key, as_json)


@app.command("list")
def list_(
    feed: FeedFolder,
    operator_key: Annotated[
        Path | None,
        typer.Option("--operator-key", metavar="PUB.pem", help="Also check the signatures, with --shuffler-key."),
    ] = None,
    shuffler_key: Annotated[
        Path | None, typer.Option("--shuffler-key", metavar="PUB.pem", help="The shuffler's public key.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show the tasks of a feed, when each ends, who has still to sign, and what is left of each purpose's budget.

    The order of the entries is always checked. With both public keys, the signatures are checked too.

    Example: hubbub tasks list deployment/operator/feed --operator-key deployment/operator/trust/operator.pub.pem
    --shuffler-key deployment/operator/trust/shuffler.pub.pem
    """
    with failures(as_json):
        from hubbub.protos.errors import UsageError
        from hubbub.protos.identity.keys import load_public
        from hubbub.protos.task.feed.entry import FeedParties
        from hubbub.protos.task.feed.files import feed_in

        if (operator_key is None) is not (shuffler_key is None):
            raise UsageError(
                "an entry is checked with two keys; give both --operator-key and --shuffler-key, or neither"
            )
        parties = None
        if operator_key is not None and shuffler_key is not None:
            parties = FeedParties(load_public(operator_key), load_public(shuffler_key))
        found = feed_in(feed, parties)
        if as_json:
            entries = [_members(found, each) for each in found.entries]
            purposes = [each.as_json() for each in found.spending.values()]
            print_json({"entries": entries, "purposes": purposes, "signatures_checked": parties is not None})
            return
        for entry in found.entries:
            console().print(_line(found, entry), markup=False, soft_wrap=True)
        if not found.entries:
            console().print("no entries yet", markup=False)
        for name, spending in found.spending.items():
            console().print(f"purpose {name}: {spending.in_words()}", markup=False, soft_wrap=True)


def _feed(folder: Path) -> Feed:
    from hubbub.protos.task.feed.feed import Feed
    from hubbub.protos.task.feed.files import feed_in

    return feed_in(folder) if folder.exists() else Feed()


def _budget(feed: Feed, purpose: str | None, epsilon: float | None, delta: float | None) -> PurposeBudget | None:
    """Return the budget that an entry states: what is given, or what the purpose's first entry stated."""
    from hubbub.protos.errors import UsageError
    from hubbub.protos.task.feed.budgets import PurposeBudget

    if purpose is None:
        if epsilon is not None or delta is not None:
            raise UsageError("--purpose-epsilon and --purpose-delta are the budget of a purpose; name it by --purpose")
        return None
    if purpose in feed.spending:
        stated = feed.spending[purpose].budget
        epsilon, delta = (stated.epsilon if epsilon is None else epsilon), (stated.delta if delta is None else delta)
    if epsilon is None or delta is None:
        raise UsageError(
            f"no entry of the feed states a budget of purpose {purpose!r}; give --purpose-epsilon and --purpose-delta, "
            f"what all its tasks together may spend, or one of these purposes: {', '.join(feed.spending) or 'none yet'}"
        )
    try:
        return PurposeBudget(purpose, float(epsilon), float(delta))
    except ValueError as error:
        raise UsageError(str(error)) from error


def _named(feed: Feed, name: str) -> SignedTask:
    from hubbub.protos.errors import UsageError
    from hubbub.protos.records.results import is_task

    # An end is final: an empty text or a slip of a digit must not name a task by chance.
    running = [each for each in feed.published.values() if each.task.id not in feed.ends]
    found = [each for each in running if is_task(name, each.task.id, each.task.name)]
    if len(found) == 1:
        return found[0]
    if not running:
        raise UsageError(f"no task of this feed runs, so {name!r} cannot end; `hubbub tasks list` shows what ended")
    names = ", ".join(f"{each.task.name} ({each.task.id.hex()[:16]})" for each in running)
    which = "several running tasks are" if found else "no running task is"
    raise UsageError(f"{which} named {name!r}; name one of these by its id: {names}")


def _open_now(signed: SignedTask) -> int:
    """Return the last round that has opened; -1 if none has."""
    schedule, now = signed.task.schedule, time.time()
    if now < schedule.start:
        return -1
    return min(schedule.rounds - 1, int((now - schedule.start) // schedule.length))


def _add(folder: Path, feed: Feed, entry: FeedEntry, keys: list[Path], as_json: bool) -> None:
    from hubbub.protos.identity.keys import Identity
    from hubbub.protos.identity.pem import readable_by_others
    from hubbub.protos.task.feed.files import add_entry

    for key in keys:
        if exposed := readable_by_others(key):
            progress_console().print(f"warning: {exposed}", markup=False, soft_wrap=True)
        entry = entry.signed_by(Identity.load(key))
    folder.mkdir(parents=True, exist_ok=True)
    path = add_entry(folder, entry)
    after = feed.with_entry(entry)
    spending = None if entry.budget is None else after.spending[entry.budget.purpose]
    if as_json:
        budget = None if spending is None else spending.as_json()
        print_json({**_members(after, entry), "budget": budget, "file": str(path)})
        return
    console().print(_line(after, entry), markup=False, soft_wrap=True)
    if spending is not None:
        name = spending.budget.purpose
        console().print(f"purpose {name}, with this task: {spending.in_words()}", markup=False, soft_wrap=True)
    console().print(f"written to {path}", markup=False, soft_wrap=True)


def _members(feed: Feed, entry: FeedEntry) -> dict[str, object]:
    """Return an entry as a document; `after` is None if it publishes."""
    task = feed.published[entry.task_id].task
    return {
        "number": entry.number,
        "action": entry.body["action"],
        "task": task.name,
        "task_id": entry.task_id.hex(),
        "after": entry.after,
        "missing": entry.missing,
        "purpose": None if entry.budget is None else entry.budget.purpose,
    }


def _line(feed: Feed, entry: FeedEntry) -> str:
    says = entry.in_words(f"{feed.published[entry.task_id].task.name} ({entry.task_id.hex()[:16]})")
    missing = f"; still to sign: {' and '.join(entry.missing)}" if entry.missing else ""
    return f"entry {entry.number} {says}{missing}"
