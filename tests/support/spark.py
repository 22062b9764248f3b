"""A session, and a reason to skip where there is no Java."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hubbub.service.settings import SparkSettings
from hubbub.service.spark.session import SparkApplication, java, session, workplace

NEEDS_JAVA = pytest.mark.skipif(
    java() is None, reason="needs Java 17 or newer: apt-get install openjdk-17-jre-headless"
)

LEAKY = pytest.mark.filterwarnings("ignore:.*:pytest.PytestUnraisableExceptionWarning")
"""PySpark leaves the sockets to its JVM for the collector to close, which warns of each."""

CONFIGURATION = Path(__file__).with_name("spark_configuration")
"""Options of Java for short sessions."""

TRIES = 3
SETTINGS = SparkSettings(master=f"local[2,{TRIES}]", minimum_envelopes=1, configuration=CONFIGURATION)
"""Two cores, and a task that fails is tried again, which `local[2]` does not do."""


@contextmanager
def running(folder: Path) -> Iterator[SparkApplication]:
    """Give a session whose tasks can run what the calling test's module defines."""
    with workplace(SETTINGS, folder) as place, session(SETTINGS, place) as begun:
        yield begun


def carried(module: str) -> None:
    """Have the classes and functions of a test's module travel to tasks whole: no worker of Spark's can import it."""
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[module])  # type: ignore[no-untyped-call]
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]


def die_at_first(number: int) -> None:
    """Kill the worker of a task, if it is tried for the first time and the number is even."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is not None and context.attemptNumber() == 0 and number % 2 == 0:
        os.kill(os.getpid(), signal.SIGKILL)


def holding(folder: Path, secrets: list[bytes]) -> list[Path]:
    """Return the files under a folder that hold one of the secrets, as it is or in hexadecimal."""
    found = []
    for path in folder.rglob("*"):
        try:
            content = path.read_bytes() if path.is_file() else b""
        except FileNotFoundError:  # taken away meanwhile
            continue
        if any(secret in content or secret.hex().encode() in content for secret in secrets):
            found.append(path)
    return found
