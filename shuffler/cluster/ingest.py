"""Loads what processes share that answer devices but manage no rounds: front ends and workers."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Gauge

from hubbub.protos.identity.keys import load_public
from hubbub.service.runtime.succession_files import load_successions
from hubbub.shuffler.admit.enrollment import signers_of_tickets
from hubbub.shuffler.admit.mtls import check_devices
from hubbub.shuffler.metrics import PREFIX, QUEUES
from hubbub.shuffler.settings import DevicePortSettings
from hubbub.shuffler.tasks import Tasks, load_tasks


def tasks_for(settings: DevicePortSettings, shuffler: bytes) -> tuple[Tasks, tuple[set[bytes], set[bytes]]]:
    """Return the tasks of the shuffler with that identity (32 bytes), and the identities that may sign tickets.

    Raises:
        HubbubError: if one of their files cannot be used.
    """
    operator = load_public(settings.operator_key)
    tasks = load_tasks(settings.tasks, operator, shuffler, load_successions(settings.successions))
    check_devices(settings, tasks)
    return tasks, signers_of_tickets(operator, shuffler, tasks)


def show_queues(registry: CollectorRegistry, **queues: Callable[[], int]) -> None:
    """Add a metric of the work that waits or is in progress, by the queue's name."""
    gauge = Gauge(f"{PREFIX}_queue_depth", QUEUES, ("queue",), registry=registry)
    for name, depth in queues.items():
        gauge.labels(name).set_function(depth)
