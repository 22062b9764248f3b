"""Runs the whole pipeline on this machine, on real data: `hubbub demo`."""

from __future__ import annotations

import functools
import shlex
import tempfile
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hubbub.cli.commands.dashboard import PORT
from hubbub.cli.options.data_files import Decimal, Every, Missing, Thousands, notation, print_notes
from hubbub.cli.terminal.output import Json, console, failures, print_json, program, progress_console

if TYPE_CHECKING:
    from hubbub.deploy.demo.demo import DemoOptions, Looked, Published
    from hubbub.deploy.demo.scenarios.scenario import Scenario
    from hubbub.deploy.local.pipeline import LocalPipeline
    from hubbub.planning.simulate.dataset import Dataset
    from hubbub.planning.simulate.notation import Notation
    from hubbub.protos.records.results import RoundResults
    from hubbub.protos.task.admission import Mode

    Show = Callable[[dict[str, Any], str | None], None]
    """Shows the demo's document, and the address of the dashboard if there is one."""

HOST = "127.0.0.1"
"""Where the dashboard of a demo listens: nobody else has to see it."""

TaskOption = Annotated[
    str | None, typer.Option("--task", metavar="NAME", help="The task to show; see --list. [default: flights]")
]

DevicesOption = Annotated[
    str | None,
    typer.Option("--devices", help="How many devices take part: a number, or all. [default: depends on the task]"),
]
Seed = Annotated[int, typer.Option("--seed", help="Seed that draws the sample of devices.")]
Data = Annotated[
    Path | None,
    typer.Option("--data", help="A CSV, TSV, JSON Lines or Parquet file instead of a task's data; a row is a device."),
]
Histograms = Annotated[
    list[str] | None,
    typer.Option("--histogram", metavar="COLUMN", help="With --data: a column to count; repeatable."),
]
Sums = Annotated[
    list[str] | None,
    typer.Option(
        "--sum", metavar="COLUMN:LOWER:UPPER", help="With --data: a column to sum, and its range; repeatable."
    ),
]
Epsilon = Annotated[float, typer.Option("--epsilon", help="Central ε of everything that a device sends in a round.")]
Delta = Annotated[
    float | None, typer.Option("--delta", help="The δ of that ε. [default: 1e-6, or 0.1 / people if that is less]")
]
LocalEpsilon = Annotated[
    float, typer.Option("--local-epsilon", help="Largest ε_local, the guarantee if all services collude.")
]
Rounds = Annotated[
    int | None, typer.Option("--rounds", min=1, max=100, help="Rounds; every device answers in each. [default: 1]")
]
Dummies = Annotated[
    int, typer.Option("--dummies", min=0, help="Dummies (uniform reports) that the shuffler adds to each batch.")
]


class NoiseChoice(StrEnum):
    """Whether the shuffler adds noise."""

    NONE = "none"
    AUTO = "auto"
    ALWAYS = "always"


NoiseOption = Annotated[
    NoiseChoice | None,
    typer.Option(
        "--noise",
        help="Noise of the shuffler, which hides each person even if all others lie: never, if no error is then more "
        "than 5 % larger, or for every query. [default: auto; none with --dummies]",
        show_default=False,
    ),
]
PostQuantum = Annotated[
    bool, typer.Option("--post-quantum", help="Seal with MLKEM768-X25519, which withstands a quantum computer.")
]
HopCount = Annotated[
    int, typer.Option("--hops", min=1, max=8, help="Shufflers in the chain, each with its own keys and process.")
]
HonestShare = Annotated[
    float | None,
    typer.Option(
        "--honest-share", help="Share of the reports assumed to be honest; needed with --admission open. [default: 1]"
    ),
]

ClusterOption = Annotated[
    bool,
    typer.Option(
        "--cluster",
        help="Run as a cluster: PostgreSQL, two front ends, a leader that is killed, a standby; Spark if installed.",
    ),
]
Postgres = Annotated[
    str,
    typer.Option(
        "--postgres",
        metavar="ADDRESS",
        help="With --cluster: an existing server's database, as postgresql://user@host/database; the user must be "
        "allowed to make databases and users. [default: the demo starts its own server]",
        show_default=False,
    ),
]


class AdmissionMode(StrEnum):
    """The modes of admission of `protos.task.admission`; listed again here, so that `--help` need not load that."""

    ENROLLED = "enrolled"
    MTLS = "mtls"
    OPEN = "open"


AdmissionOption = Annotated[
    AdmissionMode,
    typer.Option(
        "--admission",
        help="Who may submit: devices with tickets, devices with TLS certificates (fewer by default), or anyone.",
    ),
]
MTLS_SUBMISSIONS = 2_000
"""How many submissions devices with TLS certificates make in all, by default: each needs a new connection."""

Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="DIR",
        help="Save task, certificates, public keys, results and logs to this new or empty folder.",
    ),
]

PlotOption = Annotated[
    Path | None,
    typer.Option("--plot", metavar="FILE", help="Draw truth, estimates and intervals into this .svg or .png."),
]
ReportOption = Annotated[
    Path | None,
    typer.Option(
        "--report",
        metavar="FILE",
        help="Where the report is written. [default: hubbub-demo-report.html here; with --out, report.html in that "
        "folder; with --json alone, none]",
        show_default=False,
    ),
]
REPORT, REPORT_IN_FOLDER = "hubbub-demo-report.html", "report.html"
"""Names of the report, in the current folder and in that of --out.

In the current folder it is one file that says whose it is, and that the next demo writes over. A temporary folder would
be tidier, but people do not find it again, and browsers that are installed as snaps may not read it.
"""

DashboardOption = Annotated[
    bool,
    typer.Option(
        "--dashboard",
        help="At the end, show the results in a browser, until Ctrl-C; the services run on. Needs the extra dashboard.",
    ),
]
PortOption = Annotated[
    int | None,
    typer.Option(
        "--port",
        min=0,
        max=65535,
        help=f"With --dashboard: port of this machine to listen at; 0 for any free. [default: {PORT}]",
    ),
]

Explain = Annotated[
    bool,
    typer.Option(
        "--explain", help="Also print who must be honest for which ε, what each ε rests on, and how long steps took."
    ),
]
ListOption = Annotated[bool, typer.Option("--list", help="List the tasks, then exit.")]


def command(
    context: typer.Context,
    task: TaskOption = None,
    devices: DevicesOption = None,
    seed: Seed = 1,
    data: Data = None,
    histogram: Histograms = None,
    total: Sums = None,
    decimal: Decimal = None,
    thousands: Thousands = None,
    missing: Missing = None,
    epsilon: Epsilon = 1.0,
    delta: Delta = None,
    epsilon_local: LocalEpsilon = 8.0,
    rounds: Rounds = None,
    noise: NoiseOption = None,
    dummies: Dummies = 0,
    post_quantum: PostQuantum = False,
    hops: HopCount = 1,
    admission: AdmissionOption = AdmissionMode.ENROLLED,
    honest_share: HonestShare = None,
    out: Out = None,
    plot: PlotOption = None,
    report: ReportOption = None,
    dashboard: DashboardOption = False,
    port: PortOption = None,
    explain: Explain = False,
    every: Every = False,
    listed: ListOption = False,
    cluster: ClusterOption = False,
    postgres: Postgres = "",
    as_json: Json = False,
) -> None:
    """Run the whole pipeline on this machine.

    It runs real processes that talk over TLS, seals the reports, and ends with a verified certificate. Each flight that
    left New York City in 2013 is a device with two answers: its carrier, and its departure delay, which some flights
    lack. Estimates are printed next to the truth. Use --task for other data.

    Examples: hubbub demo; hubbub demo --devices all; hubbub demo --local-epsilon 20; hubbub demo --admission open
    --honest-share 0.5; hubbub demo --cluster --devices 2000; hubbub demo --data trips.csv --histogram city --sum
    minutes:0:90
    """
    with failures(as_json):
        if listed:
            _list(as_json)
            return
        from hubbub.deploy.demo.demo import DemoOptions, check_options
        from hubbub.protos.sealing.suites import DEFAULT, MLKEM768_X25519
        from hubbub.protos.task.admission import Mode

        _check_outputs(plot, report, dashboard, port)
        shown = _scenario(
            task, data, histogram or [], total or [], notation(decimal, thousands, missing, data is not None)
        )
        share = _honest_share(admission, honest_share)
        in_rounds = shown.rounds if rounds is None else rounds
        most = MTLS_SUBMISSIONS // in_rounds if admission is AdmissionMode.MTLS else shown.devices
        dataset = _dataset(shown, devices, seed, min(most, shown.devices))
        print_notes(dataset)
        suite = MLKEM768_X25519 if post_quantum else DEFAULT
        mode = Mode(admission.value)
        privacy = (epsilon, delta, epsilon_local, in_rounds, dummies, suite.name, hops, mode, share)
        options = DemoOptions(
            *privacy, cluster, _server(cluster, postgres, mode), noise=None if noise is None else noise.value
        )
        check_options(dataset, options)
        published: list[tuple[RoundResults, RoundResults]] = []

        def show(document: dict[str, Any], address: str | None) -> None:
            document["plot"] = None if plot is None else _drawn(shown, document, plot)
            document["report"] = _reported(published, report, _report_place(out, as_json))
            document["dashboard"] = address
            if as_json:
                print_json(document)
            else:
                _print(document, out, explain, every, _given(context))

        run = functools.partial(_run, dataset, options, out, as_json, lambda *both: published.append(both))
        if dashboard:
            _run_and_stay(run, show, PORT if port is None else port)
        else:
            show(run(None), None)


def _check_outputs(plot: Path | None, report: Path | None, dashboard: bool, port: int | None) -> None:
    """Check that what is wanted can be drawn, written and shown here, before anything runs."""
    from hubbub.accountant.errors import needs_extra
    from hubbub.cli.registry import DASHBOARD
    from hubbub.protos.errors import HubbubError, UsageError

    if plot is not None:
        from hubbub.cli.plots.draw import check_drawable

        check_drawable(plot, "--plot")
    if report is not None:
        from hubbub.deploy.files import check_page

        check_page(report)
    if port is not None and not dashboard:
        raise UsageError("--port is where the dashboard listens; add --dashboard, or leave --port out")
    if dashboard and not DASHBOARD.installed:
        raise HubbubError(needs_extra("--dashboard", DASHBOARD.title, DASHBOARD.name))


def _list(as_json: bool) -> None:
    from hubbub.deploy.demo.scenarios.registry import SCENARIOS

    if as_json:
        print_json({"tasks": [{"task": each.name, "about": each.about} for each in SCENARIOS.values()]})
        return
    for each in SCENARIOS.values():
        console().print(f"{each.name}: {each.about}", soft_wrap=True)


def _scenario(
    task: str | None, data: Path | None, histograms: list[str], sums: list[str], written: Notation
) -> Scenario:
    from hubbub.deploy.demo.scenarios.registry import scenario_named
    from hubbub.deploy.demo.scenarios.scenario import Scenario
    from hubbub.planning.simulate.dataset import SumSpec, from_file
    from hubbub.protos.errors import UsageError

    if data is None:
        if histograms or sums:
            raise UsageError("--histogram and --sum name columns of a file; give the file with --data")
        return scenario_named(task)
    if task is not None:
        raise UsageError(f"--task {task} has its own data; give --task or --data, not both")
    specs = [SumSpec.parse(text) for text in sums]
    about = f"each row of {data.name} is a device"
    return Scenario(data.stem, about, lambda: from_file(data, histograms, specs, written))


def _honest_share(admission: AdmissionMode, given: float | None) -> float:
    from hubbub.protos.errors import UsageError

    if given is None and admission is AdmissionMode.OPEN:
        raise UsageError(
            "--admission open lets anyone submit, so the demo needs the share of reports that you assume to be honest; "
            "add --honest-share, such as 0.5"
        )
    return 1.0 if given is None else given


def _server(cluster: bool, postgres: str, mode: Mode) -> str:
    """Return the address of the PostgreSQL server; UsageError if there is one without --cluster."""
    from hubbub.protos.errors import UsageError
    from hubbub.protos.task.admission import Mode

    if postgres and not cluster:
        raise UsageError("--postgres needs --cluster; add --cluster, or leave --postgres out")
    if cluster and mode is Mode.MTLS:
        raise UsageError("--cluster does not work with --admission mtls; use --admission enrolled or open")
    return postgres


def _dataset(shown: Scenario, devices: str | None, seed: int, default: int) -> Dataset:
    from hubbub.accountant.written_numbers import WHOLE_FORMS, whole
    from hubbub.planning.simulate.dataset import sample
    from hubbub.protos.errors import UsageError

    try:
        wanted = None if devices in (None, "all") else whole(str(devices))
    except ValueError as error:
        raise UsageError(f"--devices is {devices!r}; give a whole number such as {WHOLE_FORMS}, or all") from error
    dataset = shown.dataset()
    if devices == "all" or (devices is None and dataset.devices <= default):
        return dataset
    return sample(dataset, default if wanted is None else wanted, seed)


def _run_and_stay(run: Callable[[Looked], object], show: Show, port: int) -> None:
    """Run the demo, show it, and serve a dashboard of its services until Ctrl-C, as a reader of its deployment."""
    from hubbub.pages.dashboard.app import application, site_at
    from hubbub.pages.dashboard.server import address_of, leave, listening, serve_beside
    from hubbub.pages.dashboard.sources import opened

    # Before anything runs, so that a port that is taken is said now.
    with listening(HOST, port) as listener:

        async def looked(pipeline: LocalPipeline, document: dict[str, Any]) -> None:
            site = site_at(opened([pipeline.reader_settings()], None), HOST, listener.getsockname()[1])
            address = address_of(listener, HOST, site.access)
            await serve_beside(application(site), listener, lambda: show(document, address))

        run(looked)
    # The services have ended, and their files are gone; a page or a check may still compute.
    leave()


def _run(
    dataset: Dataset,
    options: DemoOptions,
    out: Path | None,
    as_json: bool,
    published: Published,
    looked: Looked | None,
) -> dict[str, Any]:
    import asyncio
    import signal

    from hubbub.cli.terminal.progress import progress_bars
    from hubbub.deploy.demo.demo import run

    # SIGTERM, and a terminal that is closed, end the demo as Ctrl-C does: services and clients are stopped, logs are
    # kept. A shell ignores SIGINT for a command that it starts in the background, so SIGINT's handler is set too:
    # the others would have no effect. What nohup starts outlives its terminal.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    outlives = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    for number in (signal.SIGTERM,) if outlives else (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: signal.raise_signal(signal.SIGINT))
    with tempfile.TemporaryDirectory(prefix="hubbub-demo-") as scratch:
        directory = out if out is not None else Path(scratch) / "demo"
        bars = functools.partial(progress_bars, as_json)

        async def kept(pipeline: LocalPipeline, document: dict[str, Any]) -> None:
            if looked is not None:
                await looked(pipeline, document if out is not None else _without_paths(document))

        work = run(
            dataset,
            options,
            directory,
            progress_console(quiet=as_json),
            bars,
            published,
            None if looked is None else kept,
        )
        document = asyncio.run(work)
    return document if out is not None else _without_paths(document)


def _report_place(out: Path | None, as_json: bool) -> Path | None:
    """Return where the report goes that nobody asked for; None for a program, which asks for its files by name."""
    if out is not None:
        return out / REPORT_IN_FOLDER
    return None if as_json else Path(REPORT)


def _reported(
    published: list[tuple[RoundResults, RoundResults]], wanted: Path | None, place: Path | None
) -> str | None:
    """Write the report of all rounds; return its path. None if there is no place for it.

    Raises:
        HubbubError: if it was asked for, and cannot be written; otherwise a warning is printed.
    """
    from hubbub.deploy.files import check_page
    from hubbub.protos.errors import HubbubError

    path = wanted or place
    if path is None:
        return None
    try:
        check_page(path)
        _write_report(published, path)
    except HubbubError as error:
        if wanted is not None:
            raise
        # Such as a current folder that is read-only: the demo itself went well.
        progress_console().print(f"warning: no report: {error}", markup=False, soft_wrap=True)
        return None
    return str(path)


def _write_report(published: list[tuple[RoundResults, RoundResults]], path: Path) -> None:
    """Write the report. The demo verified the certificates; their counts and estimates are checked here."""
    from hubbub.accountant.errors import needs_extra
    from hubbub.deploy.files import save
    from hubbub.protos.errors import HubbubError
    from hubbub.results import ResultsTable, Trust
    from hubbub.results.checked import check_counts

    try:
        from hubbub.pages.report.rendering import written_now
    except ModuleNotFoundError as error:
        raise HubbubError(needs_extra("the demo's report", str(error.name), "pages")) from error
    trust = Trust(verified=True, left=check_counts([each for each, _ in published]))
    save(path, written_now(ResultsTable([shown for _, shown in published], trust)).encode())


def _drawn(shown: Scenario, document: dict[str, Any], plot: Path) -> str:
    """Draw the demo's plot; return its path."""
    from hubbub.cli.plots.comparison import drawn
    from hubbub.cli.plots.demo_panels import plot_of
    from hubbub.deploy.files import save

    save(plot, drawn(plot_of(shown, document), plot.suffix.lower().removeprefix(".")))
    return str(plot)


def _without_paths(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document without the paths of files that are deleted with the scratch folder."""
    rounds = [each | {"certificate": None, "results": None} for each in document["rounds"]]
    return document | {"task_file": None, "logs": None, "rounds": rounds}


def _print(document: dict[str, Any], out: Path | None, explain: bool, every: bool, given: list[str]) -> None:
    from hubbub.cli.tables.demo_words import cluster_words, explained, looser_cap_words, noise_words
    from hubbub.cli.tables.privacy import meaning, plain_promise, print_privacy
    from hubbub.cli.tables.truth import print_query, print_series

    printer = console()
    is_series = len(document["rounds"]) > 1 and all(
        query.get("kind") == LONGITUDINAL for each in document["rounds"] for query in each["queries"]
    )
    for each in document["rounds"]:
        if len(document["rounds"]) > 1 and (explain or not is_series):
            printer.rule(f"round {each['round']}")
        for query in () if is_series else each["queries"]:
            print_query(printer, query, every)
        if explain:
            print_privacy(printer, each["privacy"])
    if is_series:
        print_series(printer, document["rounds"])
    for line in (meaning(document["rounds"][-1]["privacy"]), *explained(document)) if explain else ():
        printer.print(line, markup=False, soft_wrap=True)
    if document["cluster"] is not None:
        printer.print(cluster_words(document["cluster"]), markup=False, soft_wrap=True)
    if document["noise"] is not None and explain:
        printer.print(noise_words(document), markup=False, soft_wrap=True)
    if document["looser_cap"] is not None and explain:
        shown = document["rounds"][0]["queries"]
        printer.print(looser_cap_words(shown, **document["looser_cap"]), markup=False, soft_wrap=True)
    if not explain:
        printer.print(plain_promise(document["rounds"][-1]["privacy"]), markup=False, soft_wrap=True)
    for line in _next(document, out, explain, given):
        printer.print(line, markup=False, soft_wrap=True)


LONGITUDINAL = "longitudinal"
"""The kind of questions that are asked over time."""


_NOT_REPEATED = frozenset({"out", "plot", "report", "dashboard", "port", "explain", "every", "as_json", "listed"})
"""Options that do not change what the demo asks, and of whom."""


def _given(context: typer.Context) -> list[str]:
    """Return the options of this call that decide what is asked, as they are written, so that a next call has them."""
    words: list[str] = []
    for option in context.command.params:
        name = option.name or ""
        source = context.get_parameter_source(name)
        if source is None or source.name != "COMMANDLINE" or name in _NOT_REPEATED:
            continue
        value = context.params[name]
        written = getattr(value, "value", value)
        for each in written if isinstance(written, list | tuple) else [written]:
            words += [option.opts[0]] if each is True else [option.opts[0], str(each)]
    return words


def _next(document: dict[str, Any], out: Path | None, explain: bool, given: list[str]) -> Iterator[str]:
    """Return the last lines: that the certificate was verified, what to run next, and how results open in a browser."""
    from hubbub.cli.registry import DASHBOARD
    from hubbub.deploy.demo.demo import KEYS_IN_FOLDER

    verified = "The certificate was verified: this demo's parties signed it, and every number was computed again."
    if document["report"] is not None:
        verified += f" A report to hand on is in {document['report']}: open it in a browser."
    hubbub, address = program(), document["dashboard"]
    again = shlex.join([*shlex.split(hubbub), "demo", *given])
    browser = f"{again} --dashboard"
    if out is not None:
        # Of a folder all certificates are verified, and that together they are one history.
        checked = str(out) if len(document["rounds"]) > 1 else document["rounds"][0]["certificate"]
        yield f"{verified} Saved to {out}; next: {hubbub} verify {shlex.quote(checked)}"
        browser = f"{hubbub} dashboard {shlex.quote(str(out))} --keys {shlex.quote(str(out / KEYS_IN_FOLDER))}"
    else:
        more = "" if explain else f"{again} --explain shows how the privacy arises, and what is left if some lie; "
        yield f"{verified} Next: {more}{again} --out DIR saves the certificate and the results."
    if DASHBOARD.installed and (out is not None or address is None):
        yield f"To look at the results in a browser: {browser}"
    if address is not None:
        yield f"open {address}"
        yield "Ctrl-C ends the dashboard and the services"
