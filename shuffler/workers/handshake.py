"""Sends a new worker its start data: settings with the reserved ports, identities and tasks.

Tasks and identities are those of the shuffler's start. Files that change later count from the next start: a worker that
is restarted meanwhile must answer like the others.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterable
from dataclasses import dataclass, replace

from hubbub import __version__
from hubbub.protos.errors import HubbubError
from hubbub.protos.identity.keys import Role
from hubbub.protos.identity.lineage import Lineage
from hubbub.protos.identity.successions import Succession
from hubbub.protos.strict_json import read_json
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.task import Task
from hubbub.shuffler.settings import ShufflerSettings
from hubbub.shuffler.tasks import Tasks

_LENGTH = 4


@dataclass(frozen=True)
class Served:
    """The identities (32 bytes each, public) of operator and shuffler, and the checked tasks."""

    operator: bytes
    shuffler: bytes
    tasks: Tasks


@dataclass(frozen=True)
class Start:
    """The shuffler's settings, its tasks and identities, and the worker's number, from 1 on."""

    settings: ShufflerSettings
    served: Served
    number: int


async def write_start(there: socket.socket, start: Start) -> None:
    """Send the start data, as the first bytes on the socket, which does not block."""
    served = start.served
    content = {
        "version": __version__,
        "settings": start.settings.model_dump(mode="json"),
        "operator": served.operator.hex(),
        "shuffler": served.shuffler.hex(),
        "tasks": [_write_task(task) for task in served.tasks.values()],
        "number": start.number,
    }
    raw = json.dumps(content).encode()
    await asyncio.get_running_loop().sock_sendall(there, len(raw).to_bytes(_LENGTH, "big") + raw)


def read_start(here: socket.socket) -> Start:
    """Wait for the start data.

    Raises:
        EOFError: if the other end is gone.
        HubbubError: if it has another version, since the channel's format may differ too.
    """
    content = read_json(_exactly(here, int.from_bytes(_exactly(here, _LENGTH), "big")))
    if content["version"] != __version__:
        raise HubbubError(
            f"hubbub {__version__} is installed, but the running shuffler is {content['version']}; restart the shuffler"
        )
    settings = ShufflerSettings.model_validate(content["settings"])
    known = {role: bytes.fromhex(content[role.value]) for role in (Role.OPERATOR, Role.SHUFFLER)}
    tasks = [_read_task(document, successions, known) for document, successions in content["tasks"]]
    served = Served(known[Role.OPERATOR], known[Role.SHUFFLER], {task.id: task for task in tasks})
    return Start(settings, served, content["number"])


def _write_task(task: Task) -> tuple[str, list[str]]:
    successions = () if task.lineage is None else task.lineage.successions
    return SignedTask(task).encode().decode(), [each.encode().decode() for each in successions]


def _read_task(document: str, successions: Iterable[str], known: dict[Role, bytes]) -> Task:
    """Return a task that the sender has checked."""
    task = SignedTask.decode(document.encode()).task
    found = [Succession.decode(each.encode()) for each in successions]
    if not found:
        return task
    return replace(task, lineage=Lineage.of({**known, Role.ANALYZER: task.identities.analyzer}, found))


def _exactly(here: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        part = here.recv(count - len(found))
        if not part:
            raise EOFError("the process that started this one is gone")
        found += part
    return found
