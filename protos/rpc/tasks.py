"""Encodes and decodes the tasks of a service, and a task with its signatures."""

from __future__ import annotations

from collections.abc import Iterable

from hubbub.protos import codec
from hubbub.protos.errors import HubbubError, MessageError
from hubbub.protos.messages import ListedTask
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.v1 import tasks_pb2


def write_tasks(tasks: Iterable[ListedTask]) -> tasks_pb2.ListTasksResponse:
    """Encode the tasks that a service knows."""
    return tasks_pb2.ListTasksResponse(
        tasks=[tasks_pb2.ListedTask(task_id=each.task_id, task_name=codec.plain(each.name)) for each in tasks]
    )


def read_tasks(message: tasks_pb2.ListTasksResponse) -> list[ListedTask]:
    """Decode the tasks that a service knows.

    Raises:
        MessageError: if an id does not have 32 bytes.
    """
    return [ListedTask(codec.read_task_id(each.task_id), codec.plain(each.task_name)) for each in message.tasks]


def write_task(signed: SignedTask) -> tasks_pb2.GetTaskResponse:
    """Encode a task with its signatures."""
    return tasks_pb2.GetTaskResponse(document=signed.encode())


def read_task(message: tasks_pb2.GetTaskResponse) -> SignedTask:
    """Decode a task with its signatures, which are still to be checked.

    Raises:
        MessageError: if the document is no task.
    """
    try:
        return SignedTask.decode(message.document)
    except (HubbubError, ValueError) as error:
        raise MessageError(f"the service's answer is not a signed task: {error}") from error
