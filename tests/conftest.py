"""Property tests draw the same examples each time, and logs are written before the next test."""

import logging
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from support.thoroughness import EXHAUSTIVE, TIMES, left_out_of, usually

pytest_plugins = ["support.cost", "support.failure_reports"]

# As the command line has it, and before numpy is loaded: tests run in as many processes as there are cores.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

EXAMPLES = usually(25, 60 * TIMES)

settings.register_profile(
    "steady",
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=EXAMPLES,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("search", settings.get_profile("default"), deadline=None, max_examples=2000)
settings.load_profile("steady")

# A test's own requests are no log lines of what it tests, which may run in the same process.
for each in ("httpx2", "httpcore2"):
    logging.getLogger(each).setLevel(logging.WARNING)

# A shell that runs the tests in the background has Ctrl-C ignored, and so it would be for every program they start.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out of a usual run what `left_out_of` says, but for tests that are asked for by name."""
    _widen({item.function for item in items if isinstance(item, pytest.Function)})
    if EXHAUSTIVE or any("::" in each for each in config.args):
        return
    left_out = left_out_of(items)
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)


def _widen(tests: set[Any]) -> None:
    """Have property tests that say how many examples they draw draw as many times more as all others."""
    for test in tests if TIMES > 1 else ():
        own = getattr(test, "_hypothesis_internal_use_settings", None)
        if own is not None and own.max_examples != EXAMPLES:
            test._hypothesis_internal_use_settings = settings(own, max_examples=own.max_examples * TIMES)


def pytest_report_header() -> str:
    """Say whether what is tried on Spark is tried here."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin" if home else None)
    return (
        f"Spark: on {java}"
        if java
        else "Spark: not tried, as no Java is found: apt-get install openjdk-17-jre-headless"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Have services of this process forked from one that has imported them, unless a test is of how they start."""
    if "hubbub.deploy.local.process" in sys.modules:
        from support.preloaded import fork_services

        fork_services(item.get_closest_marker("from_nothing") is None)


@pytest.fixture(autouse=True)
def logged() -> Iterator[None]:
    """Have what a test's services logged written while the test runs: a thread writes it."""
    yield
    # Where no service ran, this must not load what services need.
    if "hubbub.service.observability.logs" in sys.modules:
        sys.modules["hubbub.service.observability.logs"].flush()


@pytest.fixture
def composed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute no composition twice in this process: for tests of what is done with compositions."""
    from support.computed_once import remember

    remember(monkeypatch)


@pytest.fixture
def counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Find the interval of no sum of reports twice: for tests of many batches under one law."""
    from support.computed_once import remember_intervals

    remember_intervals(monkeypatch)


def pytest_unconfigure() -> None:
    """Stop a server that tests started, and remove what they remember; a worker's process ends without `atexit`."""
    if "support.computed_once" in sys.modules:
        sys.modules["support.computed_once"].forget()
    if "support.postgres" in sys.modules:
        sys.modules["support.postgres"].stop()
