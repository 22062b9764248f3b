"""Attacks rounds of a task and compares what the attacker learns with the certificate: `hubbub audit TASK`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hubbub.cli.registry import FAILURE_STATUS
from hubbub.cli.terminal.output import EXIT_FAILURE, Json, console, failures, print_json
from hubbub.cli.terminal.progress import progress_bars

if TYPE_CHECKING:
    from hubbub.deploy.audit.audit import Audit, AuditOptions
    from hubbub.protos.task.task import Task

TaskFile = Annotated[
    Path, typer.Argument(metavar="TASK.toml", help="The task: a draft (.toml) or a planned task (.json).")
]
Rounds = Annotated[int, typer.Option("--rounds", min=8, max=100_000, help="Rounds to play and attack.")]
People = Annotated[
    int | None,
    typer.Option("--participants", min=2, max=100_000, help="People in a round. [default: the task's minimum_reports]"),
]
Delta = Annotated[float | None, typer.Option("--delta", help="The δ at which to compare. [default: the task's]")]
Confidence = Annotated[
    float,
    typer.Option("--confidence", help="Confidence c: a correct system fails the audit with chance 1 - c at most."),
]
UnderMinimum = Annotated[
    int | None,
    typer.Option(
        "--under-minimum",
        min=0,
        help="How many of the rounds have the victim alone, below the minimum. [default: an eighth of --rounds]",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="Keep the task, a certificate and the logs in this new or empty folder."),
]
PlotOption = Annotated[
    Path | None, typer.Option("--plot", metavar="FILE", help="Draw right against wrong guesses into this .svg or .png.")
]


def command(
    task: TaskFile,
    rounds: Rounds = 400,
    participants: People = None,
    delta: Delta = None,
    confidence: Confidence = 0.999,
    under_minimum: UnderMinimum = None,
    out: Out = None,
    plot: PlotOption = None,
    as_json: Json = False,
) -> None:
    """Attack a task's rounds and compare ε with the certificate's.

    The audit starts its own shuffler and analyzer on this machine. All answers are fixed except the victim's, which is
    one of two. The attacker guesses it from everything that the analyzer opens. How often it guesses right gives a
    lower bound on ε, with the stated confidence.

    It takes minutes: time grows with --rounds and --participants. On two cores, 200 rounds of 50 people take about 3
    minutes, and the default 400 rounds of 1,000 people a quarter of an hour or more.

    The exit status is 1 if the audit contradicts the certificate: this lower bound is above the certificate's ε, a
    round below the minimum was released, a second delivery was another list, or the noise is less than its law. It is 2
    if the audit could not be made, for example because a file is missing.

    `right` and `wrong` count how often the attacker saw its event: of the rounds with the answer that it points to, and
    of the rounds with the other answer. `ε ≥` follows from both.

    Examples: hubbub audit task.toml; hubbub audit task.toml --participants 50 --delta 0.01 --rounds 1000 --json
    """
    with failures(as_json, FAILURE_STATUS["audit"]):
        from hubbub.deploy.audit.audit import AuditOptions

        if plot is not None:
            from hubbub.cli.plots.draw import check_drawable

            check_drawable(plot, "--plot")
        options = AuditOptions(rounds, participants, delta, confidence, under_minimum)
        audit, document = _audited(_task(task, options), options, out, as_json)
        if plot is not None:
            _draw(audit, plot)
        if as_json:
            print_json(document)
        else:
            from hubbub.cli.tables.audit import print_audit

            print_audit(console(), document)
    if not document["consistent"]:
        raise typer.Exit(EXIT_FAILURE)


def _task(path: Path, options: AuditOptions) -> Task:
    from hubbub.deploy.audit.audit import audited_task, check_options, check_single_rounds
    from hubbub.deploy.files import draft_in, signed_task_in
    from hubbub.planning.plan import plan
    from hubbub.protos.task.task import Identities

    if path.suffix == ".json":
        planned = signed_task_in(path).task
    else:
        draft = draft_in(path)
        check_single_rounds(draft)
        # The identities are known only after the services have made their keys.
        planned = plan(draft).task(Identities(b"operator", b"shuffler", b"analyzer"))
    played = audited_task(planned, options)
    check_options(played, options)
    return played


def _audited(task: Task, options: AuditOptions, out: Path | None, as_json: bool) -> tuple[Audit, dict[str, Any]]:
    import asyncio
    import signal
    import time

    from hubbub.cli.tables.audit import audit_document
    from hubbub.deploy.audit.artifacts import run_and_keep

    # As in the demo: SIGTERM ends it as Ctrl-C does, and the services are stopped.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    started = time.perf_counter()
    with progress_bars(as_json) as bars:
        bar = bars.add_task("rounds played and attacked", total=options.rounds)
        audit = asyncio.run(run_and_keep(task, options, out, lambda: bars.advance(bar)))
    return audit, audit_document(audit, time.perf_counter() - started)


def _draw(audit: Audit, plot: Path) -> None:
    from hubbub.cli.plots.draw import drawn
    from hubbub.cli.tables.audit import audit_plot
    from hubbub.deploy.files import save

    save(plot, drawn(audit_plot(audit), plot.suffix.lower().removeprefix(".")))
