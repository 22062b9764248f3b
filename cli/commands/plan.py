"""Checks a task and plans its randomizers: `hubbub plan TASK.toml`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hubbub.cli.terminal.output import Json, console, failures, print_json, program
from hubbub.cli.terminal.progress import progress_bars, working

DEPLOYMENT = Path("deployment")
"""The folder that `hubbub init` is shown to make."""

if TYPE_CHECKING:
    from hubbub.accountant.spending.budget import BudgetForecast
    from hubbub.cli.tables.plan import Compared
    from hubbub.planning.capacity import CapacityRequest
    from hubbub.planning.planned import Plan
    from hubbub.protos.task.signed_task import SignedTask
    from hubbub.protos.task.task import Draft


def command(
    task: Annotated[Path, typer.Argument(metavar="TASK.toml", help="The task as written by hand.")],
    out: Annotated[
        Path | None, typer.Option("--out", help="Write the planned task to this file, to be signed.")
    ] = None,
    trust: Annotated[
        Path | None,
        typer.Option(
            "--trust",
            help="Folder with the parties' *.pub.pem, for --out; the hops that have a key there count as shufflers. "
            "[default: trust/ next to TASK.toml]",
        ),
    ] = None,
    capacity: Annotated[
        float | None,
        typer.Option("--capacity", metavar="N", help="Also estimate the machines that N submissions a day need."),
    ] = None,
    peak: Annotated[
        float | None,
        typer.Option(
            "--peak",
            metavar="N",
            help="With --capacity: the peak rate, as a multiple of the average. [default: 3]",
        ),
    ] = None,
    costs: Annotated[
        Path | None,
        typer.Option(
            "--costs",
            metavar="bench.json",
            help="With --capacity: costs measured by `make bench` on your machine. [default: costs of two cores]",
        ),
    ] = None,
    core_hour: Annotated[
        float | None,
        typer.Option("--core-hour", metavar="PRICE", help="With --capacity: price of one core for one hour."),
    ] = None,
    gigabyte_month: Annotated[
        float | None,
        typer.Option("--gigabyte-month", metavar="PRICE", help="With --capacity: price of 1 GB of disk for 30 days."),
    ] = None,
    error: Annotated[
        list[str] | None,
        typer.Option(
            "--error",
            metavar="QUERY=ERROR",
            help="A standard error that a query must reach, in its unit; ERROR alone is for every query. Repeatable; "
            "it replaces the draft's `error`.",
        ),
    ] = None,
    compare: Annotated[
        bool | None,
        typer.Option(
            "--compare/--no-compare",
            help="Also plan the task with uniform dummies, with noise and with other caps. [default: without dummies, "
            "if that is quick]",
        ),
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option("--picture", help="Draw the errors over ε into this .svg or .png; needs hubbub[plots]."),
    ] = None,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain", help="Also print what the tables rest on: randomizers, noise, made-up reports, sealing, disk."
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Check a task, choose its randomizers and predict its errors.

    Nobody is asked anything: the errors are computed from the task alone. --out writes over an earlier task that nobody
    has signed, and over no other file.

    With --error, or `error` in the draft, ε is solved for: it is the least one, up to the draft's epsilon, with which
    each stated error is reached at the minimum of reports. δ, the minimum, the cap on ε_local, weights, dummies and
    noise stay as they are written. A task written by --out has the ε that was found.

    With --compare it also shows the errors that the task would have if the shuffler added nothing, uniform dummies or
    noise, under several caps on ε_local, and at several ε.

    With --capacity it also prints the rates, bytes, cores and hours that each step needs, and the limits of one
    machine that are exceeded. These figures are computed from measured costs; --costs takes the costs of your own
    machine.

    Examples: hubbub plan deployment/operator/task.toml --out deployment/operator/task.json;
    hubbub plan deployment/operator/task.toml --capacity 1e6;
    hubbub plan deployment/operator/task.toml --error 30 --picture errors.svg
    """
    with failures(as_json):
        import time

        from hubbub.cli.tables.plan import print_plan
        from hubbub.deploy.files import draft_in, naming
        from hubbub.planning.plan import check_not_over
        from hubbub.protos.task.trusted_keys import shufflers_in

        asked = _capacity_asked(capacity, peak, costs, core_hour, gigabyte_month)
        keys = trust or task.parent / "trust"
        # Every shuffler of the chain adds noise, so the errors depend on how many hops the task will name.
        draft = replace(_with_errors(draft_in(task), error or ()), shufflers=shufflers_in(keys))
        _check_picture(picture)
        with naming(task):
            check_not_over(draft, time.time())
        if out is not None:
            _check_out(out)
            _check_trust(keys)
        with naming(task):
            planned, budget = _planned(draft, as_json)
        more = _compared(planned, compare, picture, as_json)
        _draw(planned, more, picture)
        task_id = _write(planned, out, keys) if out is not None else None
        if as_json:
            members = _document(planned, task_id) | {"budget": _budget_document(planned, budget)}
            members |= _more_document(planned, more)
            print_json(members | ({} if asked is None else {"capacity": asked.document(planned)}))
            return
        print_plan(console(), planned, budget, more, explain)
        if asked is not None:
            from hubbub.cli.tables.capacity import print_capacity

            print_capacity(console(), asked.of(planned), asked.costs, planned.draft.suite)
        if picture is not None:
            console().print(f"wrote {picture}", markup=False, soft_wrap=True)
        if not explain:
            console().print("--explain shows what these numbers rest on", markup=False, soft_wrap=True)
        console().print(_next(task, out, keys, error or ()), markup=False, soft_wrap=True)


def _capacity_asked(
    capacity: float | None,
    peak: float | None,
    costs: Path | None,
    core_hour: float | None,
    gigabyte_month: float | None,
) -> CapacityRequest | None:
    if all(each is None for each in (capacity, peak, costs, core_hour, gigabyte_month)):
        return None
    # It imports what sends submissions, which nothing else here needs.
    from hubbub.planning.capacity import CapacityRequest

    return CapacityRequest.asked(capacity, peak, costs, core_hour, gigabyte_month)


def _with_errors(draft: Draft, words: Sequence[str]) -> Draft:
    """Return the draft with the errors of the options, in place of those that it states.

    Raises:
        UsageError: if one is no QUERY=ERROR, no query has that name, its error is not above 0, or a query has two.
    """
    from hubbub.protos.errors import UsageError
    from hubbub.queries.longitudinal.over_rounds import Repeated
    from hubbub.queries.questions.question import listed

    if not words:
        return draft
    every = [question.name for question in draft.questions if not isinstance(question, Repeated)]
    found: dict[str, float] = {}
    for word in words:
        name, stated, number = word.rpartition("=")
        if stated and name not in every:
            if "," in word and name.partition("=")[0] in every:
                each = " ".join(f"--error {part.strip()}" for part in word.split(","))
                raise UsageError(f"--error {word!r} states several errors; repeat the option: {each}")
            raise UsageError(f"--error {word!r}: the queries that take an error are {listed(every)}; name one of them")
        error = _error_in(word, number)
        for asked in [name] if stated else every:
            if asked in found:
                raise UsageError(
                    f"--error {word}: {asked} has the error {found[asked]:g} already; state one for each query"
                )
            found[asked] = error
    return replace(draft, errors=tuple(found.items()))


def _error_in(word: str, number: str) -> float:
    from hubbub.accountant.written_numbers import real
    from hubbub.protos.errors import UsageError

    try:
        value = real(number)
    except ValueError as error:
        raise UsageError(f"--error {word!r} is not QUERY=ERROR or ERROR, such as carrier=30 or 30") from error
    if not 0 < value < inf:
        raise UsageError(
            f"--error {word}: give a standard error above 0, in the unit of the estimate, such as 30 people"
        )
    return value


def _check_picture(picture: Path | None) -> None:
    """Refuse a picture that could not be drawn, before anything is planned."""
    if picture is not None:
        from hubbub.cli.plots.draw import check_drawable

        check_drawable(picture, "--picture")


def _planned(draft: Draft, as_json: bool) -> tuple[Plan, BudgetForecast]:
    from hubbub.planning.plan import plan
    from hubbub.planning.planned import forecast_of

    # Most plans take a second; one over many rounds or by digits takes up to half a minute.
    with working("solving for ε" if draft.errors else "planning", as_json) as now:
        planned = plan(draft)
        # How many rounds fit is bisected, and each look composes as many rounds.
        now("counting the rounds that fit")
        return planned, forecast_of(planned)


def _compared(planned: Plan, compare: bool | None, picture: Path | None, as_json: bool) -> Compared:
    """Compute what is shown beside a plan: alternatives that are quick or asked for, and errors over ε if asked for."""
    from hubbub.cli.tables.plan import Compared
    from hubbub.planning import alternatives
    from hubbub.planning.by_error import USUAL_EPSILONS
    from hubbub.planning.plan import errors_by_epsilon

    draft = planned.draft
    shown = alternatives.is_quick(draft) if compare is None else compare
    asked = compare or planned.epsilon_most is not None
    over_epsilon = picture is not None or (asked and compare is not False)
    if not shown and not over_epsilon:
        return Compared({}, ())
    with_dummies, points = compare is True, len(USUAL_EPSILONS) + 1 if over_epsilon else 0
    with progress_bars(as_json) as bars:
        steps = alternatives.alternative_steps(draft, with_dummies) if shown else 0
        bar = bars.add_task("comparing", total=steps + points)
        found = alternatives.alternatives_of(draft, with_dummies, lambda: bars.advance(bar)) if shown else {}
        rows = errors_by_epsilon(planned) if over_epsilon else ()
        bars.update(bar, completed=steps + points)
    return Compared(found, rows)


def _more_document(planned: Plan, more: Compared) -> dict[str, object]:
    """Return what is beside the plan as JSON values."""
    from hubbub.cli.tables.planned_errors import alternatives_document, stated_document

    members: dict[str, object] = {"alternatives": alternatives_document(more.alternatives)} if more.alternatives else {}
    stated = stated_document(planned)
    members |= {} if stated is None else {"by_error": stated}
    members |= {"errors_by_epsilon": [each.as_json() for each in more.by_epsilon]} if more.by_epsilon else {}
    return members


def _draw(planned: Plan, more: Compared, picture: Path | None) -> None:
    if picture is not None:
        from hubbub.cli.plots.draw import check_drawable, drawn
        from hubbub.cli.tables.planned_errors import errors_plot
        from hubbub.deploy.files import save

        save(picture, drawn(errors_plot(planned, more.by_epsilon), check_drawable(picture, "--picture")))


def _document(planned: Plan, task_id: str | None) -> dict[str, object]:
    from hubbub.cli.tables.flooding import flood_document
    from hubbub.cli.tables.prefixes import steps_document
    from hubbub.cli.tables.randomizers import candidates_document
    from hubbub.planning.comparison import best, candidates_of
    from hubbub.planning.planned import expected_errors, expected_sums, steps_of, too_weak_when_full
    from hubbub.protos.task.task import largest_delta

    members: dict[str, object] = {
        "task": planned.draft.name,
        "task_id": task_id,
        "suite": planned.draft.suite,
        "shufflers": planned.draft.shufflers,
        "submission_bytes": planned.submission_bytes,
        "maximum_reports": planned.draft.most_reports,
        "maximum_disk_bytes": planned.most_disk_bytes,
        "largest_delta": largest_delta(planned.draft.minimum_reports),
        "too_weak_when_full": too_weak_when_full(planned),
        "queries": expected_errors(planned.queries),
    }
    sums = expected_sums(planned.queries)
    members |= {"sums": sums} if sums else {}
    dummies = planned.draft.privacy.dummies
    compared = {
        name: candidates_document(found, best(found, dummies)) for name, found in candidates_of(planned).items()
    }
    members |= {"compared": compared} if compared else {}
    prefixes = {name: steps_document(steps) for name, steps in steps_of(planned).items()}
    members |= {"prefixes": prefixes} if prefixes else {}
    return members | {"flood": flood_document(planned)}


def _check_trust(folder: Path) -> None:
    """Refuse a missing folder of public keys before the plan is made, which takes up to half a minute."""
    from hubbub.protos.errors import UsageError

    if not folder.is_dir():
        raise UsageError(
            f"there is no folder {folder} with the parties' public keys; name the operator's trust/ with --trust, or "
            "put the draft next to it"
        )


def _check_out(out: Path) -> None:
    """Refuse to write over what is no planned task, or is signed, before the plan is made.

    Services may run a signed task, and its keys be offline.
    """
    from hubbub.deploy.files import check_own
    from hubbub.protos.errors import UsageError

    check_own(out, "planned task", lambda content: _decoded(content) is not None)
    if _is_signed(out):
        raise UsageError(
            f"{out} is a signed task, and nothing is written over its signatures; name a new file with --out, such as "
            f"{_beside(out)}, or move the signed one away"
        )


def _is_signed(path: Path) -> bool:
    """Return whether a file is a task that somebody has signed."""
    try:
        found = _decoded(path.read_bytes()) if path.is_file() else None
    except OSError:
        return False  # what cannot be read or replaced is reported when it is written
    return found is not None and (found.operator_signature is not None or found.shuffler_signature is not None)


def _decoded(content: bytes) -> SignedTask | None:
    """Return the planned task that a file has; None if it has something else."""
    from hubbub.protos.errors import HubbubError
    from hubbub.protos.task.signed_task import SignedTask

    try:
        return SignedTask.decode(content)
    except HubbubError:
        return None


def _beside(out: Path) -> Path:
    """Return the name of a new file beside one that stays: `task.new.json` for `task.json`."""
    return out.with_name(f"{out.stem}.new{out.suffix}")


def _write(planned: Plan, out: Path, trust: Path) -> str:
    from hubbub.deploy.files import save
    from hubbub.protos.task.signed_task import SignedTask
    from hubbub.protos.task.trusted_keys import identities_in

    frozen = planned.task(identities_in(trust))
    save(out, SignedTask(frozen).encode())
    return frozen.id.hex()


def _budget_document(planned: Plan, budget: BudgetForecast) -> dict[str, object]:
    return {
        "epsilon_total": planned.draft.privacy.epsilon_total,
        "rounds": budget.rounds,
        "rounds_within": budget.within,
        "epsilon_of_one_round": budget.epsilon_of_one,
        "epsilon_of_all_rounds": budget.epsilon_of_all,
        "epsilon_alone_of_one_round": budget.alone_of_one,
        "epsilon_alone_of_all_rounds": budget.alone_of_all,
        "epsilon_local_of_all_rounds": budget.local_of_all,
    }


def _next(task: Path, out: Path | None, keys: Path, errors: Sequence[str]) -> str:
    """Return the last lines: what to run next; with the stated errors, as they change the task."""
    if out is not None:
        return f"wrote {out}; {_signing(out, keys)}"
    stated = [word for each in errors for word in ("--error", each)]
    stated += [] if keys == task.parent / "trust" and keys.is_dir() else ["--trust", str(_folder_of_keys(keys))]
    usual = task.with_suffix(".json")
    again = shlex.join([str(task), *stated, "--out", str(_beside(usual) if _is_signed(usual) else usual)])
    made = "" if _folder_of_keys(keys).is_dir() else f"{program()} init {DEPLOYMENT} makes the parties' keys, then "
    return f"next: {made}{program()} plan {again} writes the task, to be signed"


def _folder_of_keys(keys: Path) -> Path:
    """Return the folder of public keys, or where `hubbub init` makes it if there is none yet."""
    return keys if keys.is_dir() else DEPLOYMENT / "operator/trust"


def _signing(out: Path, keys: Path) -> str:
    """Return who signs a task and how: the commands for each party whose identity is where `hubbub init` makes it."""
    deployment = keys.parent.parent
    operator, shuffler = (deployment / name / "identity.pem" for name in ("operator", "shuffler"))
    if not operator.is_file():
        return f"next, operator and shuffler sign it: {_sign(out, Path('IDENTITY.pem'))}"
    if not shuffler.is_file():
        return _lines("next, sign it as operator, then give it to the shuffler's party to sign", _sign(out, operator))
    client = deployment / "client"
    # A `tasks` of the client is none of a service's: an application may keep a feed there.
    services = [each for each in sorted(deployment.glob("*/tasks")) if each.parent != client]
    copies = [f"cp {shlex.join([str(out), f'{each}/'])}" for each in services]
    copies += [f"cp {shlex.join([str(out), str(_of_client(client, out))])}"] if client.is_dir() else []
    told = "next, sign it as operator and as shuffler, and copy it to every party"
    return _lines(told, _sign(out, operator), _sign(out, shuffler), *copies)


def _of_client(client: Path, out: Path) -> Path:
    """Return where a client gets the task: a further task of another name does not replace its first one."""
    from hubbub.protos.errors import HubbubError
    from hubbub.protos.task.signed_task import SignedTask

    first = client / "task.json"
    try:
        names = {SignedTask.decode(each.read_bytes()).task.name for each in (first, out)}
    except (HubbubError, OSError):
        return first
    return first if len(names) == 1 else client / out.name


def _sign(task: Path, key: Path) -> str:
    return f"{program()} sign {shlex.join([str(task), '--key', str(key)])}"


def _lines(*lines: str) -> str:
    return "\n  ".join(lines)
