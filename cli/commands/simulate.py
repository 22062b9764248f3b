"""Runs a task on a file, or compares randomizers on it: `hubbub simulate [TASK.toml] --data FILE`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hubbub.cli.comparisons.randomizers import compare_randomizers, give, kinds_of, sizes_of
from hubbub.cli.options.data_files import Decimal, Every, Missing, Thousands, notation, print_notes
from hubbub.cli.terminal.output import Json, console, failures, print_json
from hubbub.cli.terminal.progress import progress_bars, working
from hubbub.protos.errors import UsageError

if TYPE_CHECKING:
    from hubbub.planning.planned import Plan
    from hubbub.planning.simulate.dataset import Dataset
    from hubbub.planning.simulate.drafting import DraftedTask
    from hubbub.planning.simulate.notation import Notation
    from hubbub.protos.task.task import Draft, Privacy


def command(
    data: Annotated[Path, typer.Option("--data", help="A CSV, TSV, JSON Lines or Parquet file, one row per device.")],
    task: Annotated[
        Path | None,
        typer.Argument(
            metavar="[TASK.toml]", help="The task as written by hand; if it is left out, that of `hubbub draft`."
        ),
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(
            "--column",
            metavar="QUERY=COLUMN",
            help="The column of a query that has another name; without a task, a COLUMN to ask about. Repeatable.",
        ),
    ] = None,
    compare: Annotated[
        str | None,
        typer.Option(
            "--compare",
            metavar="KIND,KIND",
            help="Randomizers to compare, such as krr,unary, or all; with --changes, strategies.",
        ),
    ] = None,
    total: Annotated[
        list[str] | None,
        typer.Option(
            "--sum",
            metavar="COLUMN:LOWER:UPPER",
            help="Without a task: a number's column and range; repeatable.",
        ),
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option("--epsilon", help="With --compare: ε of a round. [default: 1]")
    ] = None,
    delta: Annotated[
        float | None, typer.Option("--delta", help="With --compare: δ of a round. [default: 1e-6]")
    ] = None,
    epsilon_local: Annotated[
        float | None, typer.Option("--local-epsilon", help="With --compare: largest ε_local. [default: 8]")
    ] = None,
    reports: Annotated[
        str | None,
        typer.Option(
            "--reports",
            metavar="N,N",
            help="With --compare: numbers of reports. [default: 1000,10000,100000, up to the file's rows]",
        ),
    ] = None,
    repeat: Annotated[
        int | None, typer.Option("--repeat", min=2, help="With --compare: rounds to run of each. [default: 20]")
    ] = None,
    changes: Annotated[
        int | None,
        typer.Option(
            "--changes",
            min=1,
            help="With --compare: compare strategies for a boolean that changes at most this often over time.",
        ),
    ] = None,
    steady_share: Annotated[
        float | None,
        typer.Option(
            "--steady-share",
            help="With --changes: share of devices that answer every round; vector and sampled need it.",
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option("--device", help="With --changes, one row per device and period: column of the device."),
    ] = None,
    period: Annotated[
        str | None,
        typer.Option("--period", help="With --changes, one row per device and period: column of the period."),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="With --compare: draw into this .svg or .png; needs hubbub[plots].")
    ] = None,
    decimal: Decimal = None,
    thousands: Thousands = None,
    missing: Missing = None,
    every: Every = False,
    as_json: Json = False,
) -> None:
    """Run a task on a file's columns, without any network.

    Use it to see a task's estimates and privacy before you ask anyone. Without a task, the one that `hubbub draft`
    writes is run.

    With --compare, several randomizers answer the same questions at the same (ε, δ), for several numbers of reports
    drawn from the file. It prints observed errors next to predicted ones, and how often intervals contain the truth.
    With a task, its ε and δ are used, and each query is compared as if a round asked it alone.

    With --compare and --changes, strategies for a boolean that changes over time are compared, at the same (ε, δ) for
    all periods together. Give one --column with --device and --period, or one --column for each period, in order.

    Examples: hubbub simulate task.toml --data sessions.csv --column session=minutes;
    hubbub simulate --data sessions.csv --column theme --compare krr,unary --plot errors.svg
    """
    with failures(as_json):
        words, written = column or [], notation(decimal, thousands, missing)
        if compare is None:
            _refuse_given({"--epsilon": epsilon, "--delta": delta, "--local-epsilon": epsilon_local})
            _refuse_given({"--reports": reports, "--repeat": repeat, "--plot": plot, "--changes": changes})
            _refuse_given({"--steady-share": steady_share})
            if task is not None and total:
                raise UsageError("the task has its own questions; leave out --sum, or the task")
            _simulate(task, data, words, total or (), written, every, as_json)
            return
        _check_plot(plot)
        if changes is None and steady_share is not None:
            raise UsageError("--steady-share needs --changes; add --changes, or leave --steady-share out")
        if changes is None:
            dataset, privacy = _asked(task, data, words, written, total or [], (epsilon, delta, epsilon_local))
            sizes = sizes_of(reports, dataset.devices)
            documents = compare_randomizers(dataset, privacy, kinds_of(compare), sizes, repeat or 20, as_json)
        else:
            from hubbub.cli.comparisons.strategies import columns_of, compare_over_time

            _refuse_over_time(task, total)
            streams = columns_of(data, words, written, device, period, changes)
            privacy = _privacy(epsilon, delta, epsilon_local)
            sizes = sizes_of(reports, len(streams.states))
            documents = [compare_over_time(streams, privacy, compare, sizes, repeat or 20, steady_share, as_json)]
        give(documents, plot, as_json)


def _refuse_given(options: dict[str, object]) -> None:
    for name, value in options.items():
        if value is not None:
            raise UsageError(f"{name} needs --compare; name randomizers to compare, or leave {name} out")


def _drafted(data: Path, words: Sequence[str], sums: Sequence[str], written: Notation) -> tuple[Draft, DraftedTask]:
    """Return the task that `hubbub draft` writes, and what it notes."""
    import time

    from hubbub.planning.simulate.drafting import AskedColumns, drafted
    from hubbub.protos.task.draft import read_draft

    found = drafted(data, AskedColumns(words, sums), time.time(), written)
    return read_draft(found.text), found


def _simulate(
    task: Path | None,
    data: Path,
    words: Sequence[str],
    sums: Sequence[str],
    written: Notation,
    every: bool,
    as_json: bool,
) -> None:
    from hubbub.deploy.files import draft_in
    from hubbub.planning.simulate.dataset import read_answers
    from hubbub.planning.simulate.simulate import reports_drawn, simulate
    from hubbub.protos.task.trusted_keys import shufflers_in

    noted: Sequence[str] = ()
    if task is None:
        draft, found = _drafted(data, words, sums, written)
        words, noted = found.renamed, found.notes
    else:
        # Every shuffler of the chain adds noise, if there is any.
        draft = replace(draft_in(task), shufflers=shufflers_in(task.parent / "trust"))
    dataset = read_answers(draft.name, draft.questions, data, words, written)
    print_notes(dataset, noted)
    planned = _planned(draft, as_json)
    reports = reports_drawn(planned, dataset.devices)
    with progress_bars(as_json) as bars:
        bar = bars.add_task("devices encode and randomize", total=reports)
        document = simulate(planned, dataset, lambda devices: bars.advance(bar, devices))
        bars.update(bar, completed=reports)
    if as_json:
        print_json(document)
        return
    if not document["released"]:
        console().print(
            f"no result: {document['devices']} devices are fewer than the task's minimum_reports = "
            f"{document['minimum_reports']}, so a real round would be erased; give at least as many rows",
            soft_wrap=True,
        )
        return
    from hubbub.cli.tables.privacy import print_privacy
    from hubbub.cli.tables.truth import print_query
    from hubbub.queries.questions.bit import Bit

    # The digits of a sum have no truth to compare with: what a number is rounded to is drawn.
    for each in (*document.get("sums", ()), *(query for query in document["queries"] if query["kind"] != Bit.kind)):
        print_query(console(), each, every)
    print_privacy(console(), document["privacy"])


def _planned(draft: Draft, as_json: bool) -> Plan:
    from hubbub.planning.plan import plan

    # As in `hubbub plan`, it may take half a minute.
    with working("planning", as_json):
        return plan(draft)


# Comparing


def _asked(
    task: Path | None,
    data: Path,
    words: Sequence[str],
    written: Notation,
    sums: Sequence[str],
    stated: tuple[float | None, float | None, float | None],
) -> tuple[Dataset, Privacy]:
    """Return the columns to compare on, as questions, and the privacy: the task's, if there is a task."""
    from hubbub.deploy.files import draft_in
    from hubbub.planning.simulate.dataset import SumSpec, from_file, read_answers

    if task is None:
        return from_file(data, words, [SumSpec.parse(text) for text in sums], written), _privacy(*stated)
    if sums or any(each is not None for each in stated):
        raise UsageError(
            "the task has its own questions, ε and δ; leave out --sum, --epsilon, --delta and --local-epsilon"
        )
    draft = draft_in(task)
    return read_answers(draft.name, draft.questions, data, words, written), draft.privacy


def _privacy(epsilon: float | None, delta: float | None, cap: float | None) -> Privacy:
    from hubbub.protos.task.task import Privacy

    stated = Privacy(1.0 if epsilon is None else epsilon, 1e-6 if delta is None else delta)
    return stated if cap is None else replace(stated, epsilon_local=cap)


def _refuse_over_time(task: Path | None, sums: Sequence[str] | None) -> None:
    if task is not None or sums:
        raise UsageError("--changes compares strategies on a boolean column; leave out the task and --sum")


def _check_plot(plot: Path | None) -> None:
    """Refuse a plot that could not be drawn, before anything is run."""
    if plot is not None:
        from hubbub.cli.plots.draw import check_drawable

        check_drawable(plot, "--plot")
