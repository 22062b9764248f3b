"""Runs the whole pipeline on this machine, on real data, and compares every estimate with the truth.

Every device of a dataset answers in every round, run by several client processes. The operator closes each round when
its devices are done. Results are read, saved and compared with the truth, and the certificate is verified.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TimeElapsedColumn

from hubbub.accountant.errors import needs_extra
from hubbub.accountant.numbers import round_down_significant
from hubbub.deploy.demo.coordinator import DemoWorkers, SubmissionCounts, close_round, naming_folder
from hubbub.deploy.files import copy_files, save
from hubbub.deploy.local.pipeline import LocalPipeline
from hubbub.deploy.new_folder import new_folder
from hubbub.deploy.operator.export import write_csv, write_parquet
from hubbub.deploy.operator.lookup import decoded
from hubbub.planning.plan import plan
from hubbub.planning.planned import Plan
from hubbub.planning.simulate.dataset import Dataset, truth_of
from hubbub.planning.simulate.truth import query_document
from hubbub.protos.errors import HubbubError, UsageError
from hubbub.protos.records.results import RoundResults
from hubbub.protos.records.results_document import results_document
from hubbub.protos.sealing.suites import DEFAULT
from hubbub.protos.task.admission import AdmissionPolicy, Mode
from hubbub.protos.task.draft import check_draft
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.task import Draft, Identities, Privacy, Task, largest_delta
from hubbub.queries.errors import FieldError
from hubbub.queries.estimation.estimates import Truth
from hubbub.queries.questions.question import Question
from hubbub.queries.texts.lookup import Decodable
from hubbub.service.runtime.tidying import tidied, tidied_async
from hubbub.verification.certificate import Pins, Verified, verify

MINIMUM_SHARE = 0.9
"""The task's minimum reports, as a share of the devices."""

ROUND_SECONDS = 3600
"""Length of a demo's round; the operator closes it as soon as its devices are done."""

GRACE_SECONDS = 7 * 86400
"""Grace of a demo's rounds. A round takes submissions from a grace before it opens. So with a week's grace every round
takes them immediately, and the clock cuts none on a slow machine."""


LOOSER_CAP = 20.0
"""A cap on ε_local under which errors are near those of central noise alone: a demo says what it would bring."""

KEYS_IN_FOLDER = "trust"
"""Name of the folder of the parties' public keys, beside the results that they signed."""

PRIVACY_OPTIONS = {
    "epsilon": "--epsilon",
    "delta": "--delta",
    "epsilon_local": "--local-epsilon",
    "dummies": "--dummies",
    "noise": "--noise",
    "honest_share": "--honest-share",
}
"""The option of each of these keys of the task's table `privacy`."""

_PRIVACY = ("all_rounds", "delta", "honest_share", "ladder", "queries", "round_total")


USUAL_DELTA = 1e-6
"""The default δ, unless it is large for so many devices: then the largest δ without a stated reason."""


@dataclass(frozen=True)
class DemoOptions:
    """Options of a demo: the privacy of a device in a round, rounds, dummies, suite, shufflers and admission.

    `cluster` runs it as a cluster, on the PostgreSQL server at `postgres` or on its own. None for `delta` is
    `USUAL_DELTA`, or less if many devices take part. None for `noise` is `auto`, or `none` if there are dummies.
    """

    epsilon: float = 1.0
    delta: float | None = None
    epsilon_local: float = 8.0
    rounds: int = 1
    dummies: int = 0
    suite: str = DEFAULT.name
    hops: int = 1
    admission: Mode = Mode.ENROLLED
    honest_share: float = 1.0
    cluster: bool = False
    postgres: str = ""
    noise: Literal["none", "auto", "always"] | None = None
    clients: int = field(default_factory=lambda: max(2, os.cpu_count() or 2))


class DemoProgress:
    """Times each stage and shows a progress bar for it; if the console is no terminal, it prints a line instead."""

    def __init__(self, console: Console, progress_bars: Callable[..., Progress]) -> None:
        self.seconds: dict[str, float] = {}
        self._console = console
        self._progress_bars = progress_bars
        self._progress = self._bars()

    def _bars(self) -> Progress:
        columns = (SpinnerColumn(), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        return self._progress_bars(*columns, console=self._console)

    def __enter__(self) -> DemoProgress:
        """Show the bars."""
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the bars as they are."""
        self._progress.stop()

    @contextlib.contextmanager
    def stage(self, name: str, text: str, total: int = 1) -> Iterator[Progress]:
        """Time a stage; its bar is advanced by `advance`, and is full at the end."""
        self._current = self._progress.add_task(text, total=total)
        if not self._console.is_terminal:
            self._console.print(text, markup=False, soft_wrap=True)
        started = time.perf_counter()
        yield self._progress
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - started
        self._progress.update(self._current, completed=total)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Show no bars meanwhile, and only those of later stages afterwards."""
        self._progress.stop()
        yield
        # Bars that start again erase as many lines as they had, and these are now what was printed meanwhile.
        self._progress = self._bars()
        self._progress.start()

    def advance(self, steps: int) -> None:
        """Advance the bar of the current stage."""
        self._progress.advance(self._current, steps)


def _usual_delta(minimum: int) -> float:
    return min(USUAL_DELTA, round_down_significant(largest_delta(minimum), 2))


def draft_for(dataset: Dataset, options: DemoOptions) -> Draft:
    """Return the task that asks a dataset's questions, open from now on and closed by the operator."""
    schedule = Schedule(
        start=int(time.time()),
        length=ROUND_SECONDS,
        grace=GRACE_SECONDS,
        rounds=options.rounds,
        close="operator",
    )
    minimum = max(2, math.ceil(MINIMUM_SHARE * dataset.devices))
    privacy = Privacy(
        options.epsilon,
        _usual_delta(minimum) if options.delta is None else options.delta,
        epsilon_local=options.epsilon_local,
        honest_share=options.honest_share,
        dummies=options.dummies,
    )
    admission = AdmissionPolicy(options.admission)
    drawn_up = dataset.name, schedule, minimum, privacy, dataset.questions, admission, options.suite
    usual: Literal["none", "auto"] = "none" if options.dummies else "auto"
    return Draft(*drawn_up, noise=options.noise or usual, shufflers=options.hops)


def noise_of(planned: Plan) -> dict[str, dict[str, float]] | None:
    """Return what noise of the shuffler changes, by query that has it: its expected standard error with and without.

    The errors are worst cases at the minimum, in the question's unit. If no query has noise, the whole is None.
    """
    if all(each.query.noise is None for each in planned.queries):
        return None
    plain = plan(replace(planned.draft, noise="none"))
    return {
        noisy.query.name: {
            "expected_standard_error": noisy.expected_error,
            "expected_without_noise": without.expected_error,
        }
        for noisy, without in zip(planned.queries, plain.queries, strict=True)
        if noisy.query.noise is not None
    }


def looser_cap_of(planned: Plan) -> dict[str, Any] | None:
    """Return the expected standard errors under `LOOSER_CAP` on ε_local, if the demo has noise and a smaller cap.

    Only the cap is given up for them: ε and δ stay as they are. None for a question over time, whose cap is one of all
    rounds.
    """
    draft = planned.draft
    if any(each.strategies or each.query.noise is None for each in planned.queries):
        return None
    if draft.privacy.epsilon_local >= LOOSER_CAP:
        return None
    looser = plan(replace(draft, privacy=replace(draft.privacy, epsilon_local=LOOSER_CAP)))
    errors = {each.query.name: each.expected_error for each in looser.queries}
    return {"epsilon_local": LOOSER_CAP, "expected_standard_errors": errors}


def check_options(dataset: Dataset, options: DemoOptions) -> None:
    """Check that a task can ask these questions under this privacy.

    Raises:
        UsageError: if the value of an option is out of its limits.
        TaskError: if the data itself cannot be asked about, such as a name that two columns have.
    """
    try:
        check_draft(draft_for(dataset, options))
    except FieldError as error:
        if error.table == "privacy" and error.key in PRIVACY_OPTIONS:
            raise UsageError(f"{PRIVACY_OPTIONS[error.key]} {error.problem}") from error
        if error.key in ("lower", "upper"):
            raise UsageError(f"--sum COLUMN:LOWER:UPPER: {error.key} {error.problem}") from error
        raise


Published = Callable[[RoundResults, RoundResults], None]
"""Called with what the analyzer published of a round, and with that after its candidates were looked up."""

Looked = Callable[[LocalPipeline, dict[str, Any]], Awaitable[None]]
"""Called after the last round, with the services that still run and the demo's document so far."""


async def run(
    dataset: Dataset,
    options: DemoOptions,
    out: Path,
    console: Console,
    progress_bars: Callable[..., Progress],
    published: Published = lambda *_: None,
    looked: Looked | None = None,
) -> dict[str, Any]:
    """Run the demo; return its JSON document. `out`, a new or empty folder, gets task, certificates, results and logs.

    `published` is called for each round, once its certificate is verified. The services stop when `looked` returns.

    Keys and stores are in a temporary folder, which is removed at the end. If a round fails, `out` has only the logs;
    if nothing was logged yet, it is unchanged.

    Raises:
        HubbubError: if a part of it fails, naming the part and the remedy.
    """
    with (
        tempfile.TemporaryDirectory(prefix="hubbub-demo-") as scratch,
        naming_folder(Path(scratch)),
        DemoProgress(console, progress_bars) as stages,
    ):
        async with contextlib.AsyncExitStack() as stack:
            # It is whole before anybody is told that it is kept: a failure from then on takes nothing from it.
            with new_folder(out):
                with stages.stage("start", _starting(options)):
                    planned = await asyncio.to_thread(plan, draft_for(dataset, options))
                    # While the services start, which leaves this process nothing to do.
                    compared = asyncio.gather(
                        asyncio.to_thread(noise_of, planned), asyncio.to_thread(looser_cap_of, planned)
                    )
                    await stack.enter_async_context(tidied_async(lambda: _ended(compared)))
                    pipeline = _pipeline(planned, dataset.devices, options, Path(scratch) / "pipeline", stack)
                    # Registered before the pipeline is entered, so that it runs after the services have stopped.
                    stack.enter_context(tidied(lambda: copy_files(pipeline.logs, out / "logs")))
                    await stack.enter_async_context(pipeline)
                    noise, looser_cap = await compared
                    workers = DemoWorkers(pipeline, dataset.devices, options.clients)
                    await stack.enter_async_context(tidied_async(workers.stop))
                rounds = [
                    await _round(pipeline, workers, dataset.in_round(number), options, number, stages, out, published)
                    for number in range(options.rounds)
                ]
                save(out / "task.json", pipeline.task.encode())
                copy_files(pipeline.folder.trust_of("reader"), out / KEYS_IN_FOLDER)
            planned_for = {"noise": noise, "looser_cap": looser_cap}
            planned_for["cluster"] = _cluster_document(options, dataset.devices)
            document = _document(pipeline, dataset, rounds, stages.seconds, out) | planned_for
            if looked is not None:
                await workers.stop()
                with stages.paused():
                    await looked(pipeline, document)
            with stages.stage("stop", "stop the services"):
                await stack.aclose()
    return document | {"seconds": _rounded(stages.seconds)}


def _rounded(seconds: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 3) for name, value in seconds.items()}


async def _ended(work: asyncio.Future[Any]) -> None:
    """Wait for what runs beside the start: if that failed, nobody else does, and its end would be logged as lost."""
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)


def _starting(options: DemoOptions) -> str:
    if options.cluster:
        return "plan the task, start PostgreSQL, a leader and its standby, two front ends, the analyzer"
    return "plan the task, start shuffler and analyzer"


def _pipeline(
    planned: Plan, devices: int, options: DemoOptions, directory: Path, stack: contextlib.AsyncExitStack
) -> LocalPipeline:
    """Return the pipeline; its databases, if it has any, are on the stack."""

    def freeze(identities: Identities) -> tuple[Task, ...]:
        return (planned.task(identities),)

    if not options.cluster:
        return LocalPipeline(freeze, directory, hops=options.hops)
    try:
        from hubbub.deploy.local.cluster import SPARK_FROM, LocalCluster, spark_missing
        from hubbub.deploy.local.databases import new_databases

        databases = stack.enter_context(new_databases(options.postgres))
    except ModuleNotFoundError as error:
        raise HubbubError(needs_extra("--cluster", str(error.name), "demo", "postgres", "cluster")) from error
    # Optional questions have smaller batches: the lower limit keeps all batches of a round on the same path.
    spark_from = None if spark_missing(devices) else SPARK_FROM // 2
    return LocalCluster(freeze, directory, databases=databases, hops=options.hops, spark_from=spark_from)


def _cluster_document(options: DemoOptions, devices: int) -> dict[str, Any] | None:
    if not options.cluster:
        return None
    from hubbub.deploy.local.cluster import LOCAL_SPARK, spark_missing

    missing = spark_missing(devices)
    return {
        "postgres": "named" if options.postgres else "own",
        "leader_killed": True,
        "spark": None if missing else LOCAL_SPARK,
        "spark_missing": missing or None,
    }


async def _fail_over(pipeline: LocalPipeline, number: int, options: DemoOptions, stages: DemoProgress) -> None:
    """Kill the leader while the first round is open, with all its submissions acknowledged."""
    if not options.cluster or number:
        return
    from hubbub.deploy.local.cluster import LocalCluster

    if isinstance(pipeline, LocalCluster):
        with stages.stage("fail_over", "kill the leader, have the standby take over"):
            await pipeline.fail_over()


async def _round(
    pipeline: LocalPipeline,
    workers: DemoWorkers,
    dataset: Dataset,
    options: DemoOptions,
    number: int,
    stages: DemoProgress,
    out: Path,
    published: Published,
) -> dict[str, Any]:
    truths = {question.name: _truth(dataset, question) for question in dataset.questions}
    label = f"round {number}: " if options.rounds > 1 else ""
    with stages.stage("submit", f"{label}devices encode, randomize, seal, submit", dataset.devices):
        counts = await pipeline.guard(workers.submit_all(dataset, number, stages.advance))
    await _fail_over(pipeline, number, options, stages)
    with stages.stage("shuffle_and_analyze", f"{label}mix, release, open, estimate, certify"):
        status = await close_round(pipeline, number, counts)
        results = await pipeline.results(number)
    with stages.stage("verify", f"{label}verify the certificate"):
        verified, certificate = await asyncio.to_thread(_check, pipeline, results, out)
    as_published, results = results, decoded(results, dataset.candidates) if dataset.candidates else results
    published(as_published, results)
    return {
        "round": number,
        "submissions": {"acknowledged": status.submissions, "accepted": counts.accepted, **_refusals(counts)},
        "refusals_by_shuffler": dict(status.refusals),
        "queries": [_compared(pipeline, index, results, truths) for index in range(len(results.queries))],
        "certificate": str(certificate),
        "results": _save(results, out),
        "privacy": {"admission": verified.admission, **{name: verified.content[name] for name in _PRIVACY}},
        "verified": True,
    }


def _truth(dataset: Dataset, question: Question) -> Truth:
    """Return the true statistics; a candidate without people has a count of 0, so that a false discovery is visible."""
    truth = truth_of(dataset, question)
    if not isinstance(question, Decodable):
        return truth
    nobody: dict[tuple[str, str | None], float] = {("count", each): 0.0 for each in dataset.candidates}
    return {**nobody, **truth}


def _refusals(counts: SubmissionCounts) -> dict[str, Any]:
    return {"refused": dict(counts.refused), "first_refusal_by_reason": counts.messages}


def _compared(pipeline: LocalPipeline, index: int, results: RoundResults, truths: dict[str, Truth]) -> dict[str, Any]:
    question = pipeline.task.task.queries[index].question
    return query_document(results.queries[index], question.kind, truths[question.name], question.optional)


def _check(pipeline: LocalPipeline, results: RoundResults, out: Path) -> tuple[Verified, Path]:
    """Save the certificate's bytes unchanged and verify them from the file, with all signers pinned."""
    path = out / f"certificate-{results.id.task_name}-{results.id.round}.json"
    save(path, results.certificate)
    identities = pipeline.task.task.identities
    pins = Pins(identities.operator, identities.shuffler, identities.analyzer, identities.hops)
    return verify(path.read_bytes(), pins), path


def _save(results: RoundResults, out: Path) -> dict[str, str]:
    stem = out / f"results-{results.id.task_name}-{results.id.round}"
    paths = {kind: stem.with_suffix(f".{kind}") for kind in ("csv", "parquet", "json")}
    write_csv(paths["csv"], results)
    write_parquet(paths["parquet"], results)
    document = json.dumps(results_document(results), indent=2, ensure_ascii=False, allow_nan=False)
    save(paths["json"], f"{document}\n".encode())
    return {kind: str(path) for kind, path in paths.items()}


def _document(
    pipeline: LocalPipeline, dataset: Dataset, rounds: list[dict[str, Any]], seconds: dict[str, float], out: Path
) -> dict[str, Any]:
    task = pipeline.task.task
    return {
        "task": task.name,
        "task_id": task.id.hex(),
        "task_file": str(out / "task.json"),
        "devices": dataset.devices,
        "unusable": {name: dict(counts) for name, counts in dataset.unusable.items()},
        "minimum_reports": task.minimum_reports,
        "epsilon": task.privacy.epsilon,
        "delta": task.privacy.delta,
        "suite": task.suite,
        "hops": 1 + len(task.identities.hops),
        "admission": task.admission.mode.value,
        "submission_bytes": task.outer_bytes,
        "rounds": rounds,
        "seconds": _rounded(seconds),
        "logs": str(out / "logs"),
    }
