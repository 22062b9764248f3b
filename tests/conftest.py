"""What tests share: property tests draw the same examples each time, and logs are written before the next test."""

import os
import shutil
import signal
import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "steady",
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("search", settings.get_profile("default"), deadline=None, max_examples=2000)
settings.load_profile("steady")

# A shell that runs the tests in the background has Ctrl-C ignored, and so it would be for every program they start.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_report_header() -> str:
    """Say whether what is tried on Spark is tried here."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin" if home else None)
    return (
        f"Spark: on {java}"
        if java
        else "Spark: not tried, as no Java is found: apt-get install openjdk-17-jre-headless"
    )


@pytest.fixture(autouse=True)
def logged() -> Iterator[None]:
    """Have what a test's services logged written while the test runs: a thread writes it."""
    yield
    # Where no service ran, this must not load what services need.
    if "hubbub.service.observability.logs" in sys.modules:
        sys.modules["hubbub.service.observability.logs"].flush()


def pytest_unconfigure() -> None:
    """Stop a server that tests started; a worker's process ends without `atexit`."""
    if "support.postgres" in sys.modules:
        sys.modules["support.postgres"].stop()
