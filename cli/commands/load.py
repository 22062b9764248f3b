"""Sends the load of many made-up devices and measures latencies: `hubbub load [CLIENT.toml]`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hubbub.cli.terminal.output import Json, console, failures, print_json, progress_console

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hubbub.deploy.load.coordinator import Deployment
    from hubbub.deploy.load.latency import StepResult
    from hubbub.deploy.load.run import LoadResult
    from hubbub.deploy.load.schedule import LoadSchedule

INTERRUPTED = 130


def command(
    settings: Annotated[
        Path | None,
        typer.Argument(
            metavar="[CLIENT.toml]", help="A client's settings file. [default: start services on this machine]"
        ),
    ] = None,
    rate: Annotated[
        float | None, typer.Option("--rate", metavar="N", help="Devices a second, on average. [default: 200]")
    ] = None,
    steps: Annotated[
        str | None, typer.Option("--steps", metavar="N,N,…", help="Several rates, one after the other, per second.")
    ] = None,
    users: Annotated[
        int | None,
        typer.Option("--users", metavar="N", min=1, help="Instead of a rate: N users, each with one call at a time."),
    ] = None,
    think: Annotated[
        float | None,
        typer.Option("--think", metavar="S", help="With --users: mean seconds between an answer and the next call."),
    ] = None,
    seconds: Annotated[float, typer.Option("--seconds", metavar="S", help="Seconds that each step lasts.")] = 10.0,
    per_call: Annotated[
        int, typer.Option("--per-call", metavar="N", min=1, max=10_000, help="Devices in one call, like a gateway's.")
    ] = 1,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="S", help="Seconds to try each call, retries included.")
    ] = 10.0,
    processes: Annotated[
        int | None,
        typer.Option(
            "--processes", min=1, max=256, help="Processes that send. [default: 1; 2 above 1000 calls a second]"
        ),
    ] = None,
    connections: Annotated[int, typer.Option("--connections", min=1, max=256, help="Connections of each process.")] = 4,
    workers: Annotated[
        int,
        typer.Option(
            "--workers",
            min=0,
            max=256,
            help="Without CLIENT.toml: workers of the shuffler; 0 is none, the shuffler answers by itself.",
        ),
    ] = 0,
    tickets: Annotated[
        Path | None,
        typer.Option(
            "--tickets", metavar="FILE", help="The devices' tickets, one per line, from `hubbub enroll --devices`."
        ),
    ] = None,
    round_number: Annotated[
        int | None, typer.Option("--round", min=0, help="The round's number. [default: the current round]")
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", metavar="FILE", help="Draw throughput and latencies into this .svg or .png."),
    ] = None,
    pollute: Annotated[
        bool, typer.Option("--pollute", help="Allow services on other machines; their round's results become useless.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Load a deployment with made-up devices and print latencies.

    It also prints throughput and refusals. Devices come at random moments. Their rate does not fall if the service is
    slow, and a latency counts from the moment a device was due. Calls are retried as devices retry them.

    Submissions are made and sealed before the load begins, and sent over TLS. Their answers are nobody's, but they
    count in the round: never load a round whose results matter. If the task admits enrolled devices, each device
    needs its own ticket.

    The table has a row for each step. "devices due" is how many were to come in a second, "devices" how many that was
    in all. "acknowledged" is how many of them got a receipt, and how many a second that was. p50, p99, p99.9 and max
    are latencies in milliseconds of the acknowledged: half of them took p50 or less, 99 in 100 took p99 or less, and
    the slowest took max. "CPU of the load" is how many cores this command itself used: on one machine the services
    lack those.

    Examples: hubbub load --rate 300 --seconds 5; hubbub load --steps 500,1000,2000,4000 --plot load.svg;
    hubbub load deployment/client/client.toml --tickets load.jsonl --users 100 --think 2 --seconds 60
    """
    with failures(as_json):
        from hubbub.cli.plots.draw import check_drawable
        from hubbub.cli.terminal.progress import progress_bars
        from hubbub.deploy.load.run import checked_schedule, load, load_locally
        from hubbub.protos.errors import UsageError

        form = None if plot is None else check_drawable(plot, "--plot")
        schedule = checked_schedule(rate, steps, users, think, seconds, per_call, timeout)
        if settings is not None and workers:
            raise UsageError("--workers needs services that are started here; set a deployment's in its shuffler.toml")
        count = processes or (1 if max(step.rate for step in schedule.steps) <= 1000 * per_call else 2)
        if settings is None:
            loaded = load_locally(schedule, count, connections, progress_bars(as_json), workers)
        else:
            deployment = _deployment(settings, schedule, count, connections, tickets, round_number, pollute)
            loaded = load(deployment, schedule, count, progress_bars(as_json))
        document = _document(loaded, schedule, count)
        if plot is not None and form is not None and loaded.steps:
            from hubbub.cli.plots.draw import drawn
            from hubbub.cli.tables.load import plot as plot_of
            from hubbub.deploy.files import save

            save(plot, drawn(plot_of(loaded.steps, loaded.where), form))
        print_json(document) if as_json else _print(loaded, plot)
        if loaded.interrupted:
            raise typer.Exit(INTERRUPTED)


def _deployment(
    settings: Path,
    schedule: LoadSchedule,
    processes: int,
    connections: int,
    tickets: Path | None,
    round_number: int | None,
    pollute: bool,
) -> Deployment:
    from hubbub.deploy.load.run import deployment_in

    return deployment_in(settings, schedule, processes, connections, tickets, round_number, pollute)


def _document(loaded: LoadResult, schedule: LoadSchedule, processes: int) -> dict[str, object]:
    from hubbub.deploy.load.latency import document

    members: dict[str, object] = {"where": loaded.where, "schedule": schedule.content(), "processes": processes}
    members |= {"steps": [document(step) for step in loaded.steps], "interrupted": loaded.interrupted}
    return members | ({} if loaded.held is None else {"held_by_shuffler": loaded.held})


def _print(loaded: LoadResult, plot: Path | None) -> None:
    from hubbub.cli.tables.load import print_steps

    if loaded.interrupted:
        progress_console().print(f"interrupted after {len(loaded.steps)} complete steps", soft_wrap=True)
    if not loaded.steps:
        return
    print_steps(console(), loaded.steps)
    if loaded.held is not None:
        counted = f"the shuffler has {loaded.held} submissions, {_acknowledged(loaded.steps)} were acknowledged"
        console().print(counted, soft_wrap=True)
    if plot is not None:
        console().print(f"wrote {plot}", soft_wrap=True)


def _acknowledged(steps: Sequence[StepResult]) -> int:
    return sum(step.acknowledged for step in steps)
