"""Loads what processes share that answer devices but manage no rounds: front ends and workers."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Gauge

from hubbub.protos.task.feed.entry import FeedParties
from hubbub.protos.task.task import Task
from hubbub.shuffler.admit.mtls import check_devices
from hubbub.shuffler.metrics import PREFIX, QUEUES
from hubbub.shuffler.settings import DevicePortSettings
from hubbub.shuffler.tasks import load_signed


def tasks_for(settings: DevicePortSettings, parties: FeedParties) -> dict[bytes, Task]:
    """Return the tasks of these parties in the files that the settings name; there may be none.

    Raises:
        HubbubError: if one of their files cannot be used.
    """
    who = (parties.operator, parties.shuffler, parties.successions)
    tasks = {key: each.task for key, each in load_signed(settings.tasks, *who, any_number=True).items()}
    check_devices(settings, tasks)
    return tasks


def show_queues(registry: CollectorRegistry, **queues: Callable[[], int]) -> None:
    """Add a metric of the work that waits or is in progress, by the queue's name."""
    gauge = Gauge(f"{PREFIX}_queue_depth", QUEUES, ("queue",), registry=registry)
    for name, depth in queues.items():
        gauge.labels(name).set_function(depth)
