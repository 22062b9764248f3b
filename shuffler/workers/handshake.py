"""Sends a new worker its start data: settings with the reserved ports, identities and tasks.

Tasks and identities are those of the shuffler's start, and what its feed published and ended since then. Files that
change later count from the next start: a worker that is restarted meanwhile must answer like the others.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

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
    """The identities (32 bytes each, public) of operator and shuffler, their successions, and the checked tasks."""

    operator: bytes
    shuffler: bytes
    tasks: Tasks
    successions: tuple[Succession, ...] = ()

    @property
    def known(self) -> dict[Role, bytes]:
        """The identities by their roles."""
        return {Role.OPERATOR: self.operator, Role.SHUFFLER: self.shuffler}


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
        "successions": [each.encode().decode() for each in served.successions],
        "tasks": [task_document(task) for task in served.tasks.values()],
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
    tasks = [task_of(document, known) for document in content["tasks"]]
    successions = tuple(Succession.decode(each.encode()) for each in content["successions"])
    served = Served(known[Role.OPERATOR], known[Role.SHUFFLER], {task.id: task for task in tasks}, successions)
    return Start(settings, served, content["number"])


def task_document(task: Task) -> dict[str, Any]:
    """Return a checked task as JSON, with what is no part of it: its successions, and the round that ends it."""
    successions = () if task.lineage is None else task.lineage.successions
    return {
        "ends_after": task.ends_after,
        "successions": [each.encode().decode() for each in successions],
        "task": SignedTask(task).encode().decode(),
    }


def task_of(document: Mapping[str, Any], known: Mapping[Role, bytes]) -> Task:
    """Return a task that the sender has checked; `known` has the identities of operator and shuffler."""
    task = SignedTask.decode(document["task"].encode()).task
    task = replace(task, ends_after=document["ends_after"])
    found = [Succession.decode(each.encode()) for each in document["successions"]]
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
