"""Answers a round of running services with made-up devices, to try a deployment."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hubbub.client import Device, DeviceSettings, Fleet, Summary
from hubbub.deploy.errors import as_usage_error
from hubbub.deploy.load.individually import submit_individually
from hubbub.protos.errors import TaskError, UsageError
from hubbub.protos.task.task import Task
from hubbub.queries.errors import AnswerError
from hubbub.queries.questions.question import Value

Answers = Mapping[str, Value]
"""A device's answers by query; an absent query has no answer."""

CertificateFiles = tuple[Path, Path]
"""The files of a device's TLS certificate and its key."""


async def send(
    files: DeviceSettings,
    answers: Iterable[Answers],
    round_number: int | None,
    progress: Callable[[int], None],
    tickets: Sequence[bytes] = (),
    certificates: Sequence[CertificateFiles] = (),
) -> Summary:
    """Answer a round, the current one by default, once for each of the `answers`; return what became of them.

    What is on its way is in a temporary folder, which is removed at the end. `progress` is told how many more devices
    were dealt with. `tickets` are the devices' tickets, in order, if the task admits enrolled devices.
    `certificates` are theirs if it admits by TLS certificate; each is then shown over its own connection.

    Raises:
        HubbubError: as `Fleet.submit_many`.
    """
    named = ((str(number), each) for number, each in enumerate(answers))
    with tempfile.TemporaryDirectory(prefix="hubbub-rehearsal-") as scratch:
        common: dict[str, Any] = {
            "task": files.task.read_bytes(),
            "operator_key": files.operator_key.read_bytes(),
            "shuffler_key": files.shuffler_key.read_bytes(),
            "state": Path(scratch) / "devices.db",
            "shuffler": files.shuffler,
            "authority": files.authority,
            "log_proof": None if files.log_proof is None else files.log_proof.read_bytes(),
        }
        if certificates:

            def device(name: str) -> Device:
                certificate, key = certificates[int(name)]
                return Device(**common, name=name, certificate=certificate, key=key)

            return await submit_individually(named, device, round_number, progress)
        async with Fleet(**common, tickets={str(number): each for number, each in enumerate(tickets)}) as fleet:
            return await fleet.submit_many(named, round_number, progress=progress)


def certificates_in(folder: Path) -> list[CertificateFiles]:
    """Return the devices' certificates in a folder, in the order of their names: NAME.pem with NAME.key beside it."""
    pairs = [(path, path.with_suffix(".key")) for path in sorted(folder.glob("*.pem"))]
    return [(certificate, key) for certificate, key in pairs if key.exists()]


def answers_in_turn(task: Task, words: Sequence[str], devices: int) -> Iterator[Answers]:
    """Return the answers of so many devices, which take turns through each query's texts NAME=VALUE.

    Raises:
        UsageError: if a text has another form, if the task has no query of that name or the query cannot read the
            value, or if a query that needs an answer has none.
    """
    stated: dict[str, list[Value]] = {}
    for word in words:
        name, found, value = word.partition("=")
        if not found:
            raise UsageError(f"--answer {word!r} is not of the form NAME=VALUE; give it so, such as theme=dark")
        with as_usage_error(TaskError, AnswerError):
            stated.setdefault(name, []).append(task.asked_named(name).question.parse(value))
    missing = [each.name for each in task.asked if each.name not in stated and not each.question.optional]
    if missing:
        raise UsageError(f"there is no answer to {', '.join(missing)}; add --answer {missing[0]}=VALUE, or give --data")
    cycles = {name: itertools.cycle(values) for name, values in stated.items()}
    return ({name: next(cycle) for name, cycle in cycles.items()} for _ in range(devices))
