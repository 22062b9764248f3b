"""`hubbub audit TASK`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hubbub.cli.output import EXIT_FAILURE, Json, console, failures, print_json
from hubbub.cli.progress import progress_bars

if TYPE_CHECKING:
    from hubbub.deploy.audit.audit import Audit, AuditOptions
    from hubbub.protos.task.task import Task

TaskFile = Annotated[
    Path, typer.Argument(metavar="TASK.toml", help="The task as written by hand, or a planned one (.json).")
]
Rounds = Annotated[int, typer.Option("--rounds", min=8, max=100_000, help="How often the worst case is played.")]
People = Annotated[
    int | None,
    typer.Option("--participants", min=2, max=100_000, help="People in a round. [default: the task's minimum_reports]"),
]
Delta = Annotated[float | None, typer.Option("--delta", help="At which δ to compare. [default: the task's]")]
Confidence = Annotated[
    float, typer.Option("--confidence", help="A right system is accused with what this leaves of 1, at most.")
]
UnderMinimum = Annotated[
    int | None,
    typer.Option("--under-minimum", min=0, help="Rounds of the victim alone, under the minimum. [default: an eighth]"),
]
Out = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="Keep the task, a certificate and the logs in this new or empty folder."),
]
PlotOption = Annotated[
    Path | None, typer.Option("--plot", metavar="FILE", help="Draw right against wrong guesses: .svg or .png.")
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
    """Attack a task's rounds on real services, and compare what is learned with what the certificate allows.

    A shuffler and an analyzer of its own run on this machine. Everyone's answer is fixed but one person's, which is one
    of two. How well it can be told which, from everything that the analyzer opens, gives a lower bound of ε with its
    confidence. The exit status is 1 where it is above the certificate's ε.

    Examples: hubbub audit task.toml; hubbub audit task.toml --participants 50 --delta 0.01 --rounds 1000 --json
    """
    with failures(as_json):
        from hubbub.deploy.audit.audit import AuditOptions

        if plot is not None:
            from hubbub.cli.plots.draw import check_drawable

            check_drawable(plot, "--plot")
        options = AuditOptions(rounds, participants, delta, confidence, under_minimum)
        audit, document = _audited(_task(task, options), options, out)
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
        # Who runs it is known only when the services have made their keys.
        planned = plan(draft).task(Identities(b"operator", b"shuffler", b"analyzer"))
    played = audited_task(planned, options)
    check_options(played, options)
    return played


def _audited(task: Task, options: AuditOptions, out: Path | None) -> tuple[Audit, dict[str, Any]]:
    import asyncio
    import signal
    import time

    from hubbub.cli.tables.audit import audit_document
    from hubbub.deploy.audit.artifacts import run_and_keep

    # As in the demo: SIGTERM ends it as Ctrl-C does, and the services are stopped.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    started = time.perf_counter()
    with progress_bars() as bars:
        bar = bars.add_task("rounds played and attacked", total=options.rounds)
        audit = asyncio.run(run_and_keep(task, options, out, lambda: bars.advance(bar)))
    return audit, audit_document(audit, time.perf_counter() - started)


def _draw(audit: Audit, plot: Path) -> None:
    from hubbub.cli.plots.draw import drawn
    from hubbub.cli.tables.audit import audit_plot
    from hubbub.deploy.files import save

    save(plot, drawn(audit_plot(audit), plot.suffix.lower().removeprefix(".")))
