"""Runs a Spark application for one job of a service; it is refused unless it encrypts all sent and stored data.

A session lasts for one batch. Afterwards its JVM and its Python workers are gone, and so are the keys and envelopes in
their memory. The cluster has its cores back until the next round.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog

from hubbub import __version__
from hubbub.accountant.errors import needs_extra
from hubbub.service.processes import subprocesses
from hubbub.service.processes.hardening import disable_core_dumps
from hubbub.service.processes.subprocesses import interpreter, remove_cwd_from_path
from hubbub.service.settings import SettingsError, SparkSettings
from hubbub.service.spark.errors import SparkError

if TYPE_CHECKING:
    from pyspark import SparkConf, SparkContext

PREFIX = "hubbub-spark-"
"""Beginning of the names of the folders of sessions."""

ENCRYPTION = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    # Authenticated, unlike the old default: changed bytes are detected.
    "spark.network.crypto.cipher": "AES/GCM/NoPadding",
    "spark.network.crypto.saslFallback": "false",
    "spark.io.encryption.enabled": "true",
    "spark.io.encryption.keySizeBits": "256",
}
"""Settings that encrypt all data that Spark sends or spills; tasks contain keys of rounds, and are stored as blocks."""

QUIET = {
    "spark.eventLog.enabled": "false",
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    "spark.python.worker.reuse": "true",
    # A worker that finds its interpreter's address by itself prints no warning about it.
    "spark.ui.showConsoleProgress": "false",
}
"""Settings against event logs, ports and other logs; a Python worker runs one task after the other."""

GIVEN = frozenset(
    {
        *("JAVA_HOME", "SPARK_CONF_DIR", "SPARK_LOCAL_DIRS", "SPARK_LOCAL_IP", "SPARK_CONNECT_MODE"),
        *("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "_PYSPARK_DRIVER_CONN_INFO_PATH"),
        *("HADOOP_HOME", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "KUBECONFIG", "KRB5_CONFIG", "KRB5CCNAME"),
    }
)
"""Variables for the JVM, in addition to those of every child: places of Java, Spark's settings and the cluster."""

_OF_SCRIPT = re.compile(r"\S*spark-class: line \d+: ")
"""Beginning of a line that Spark's start script logs about itself."""

STOP_SECONDS = 10.0
"""How long a JVM may take to end before it is killed."""

_ONE = threading.Lock()
"""A process has one session at a time: PySpark keeps its gateway in the class."""

_IN_USE: set[Path] = set()
_IN_USE_LOCK = threading.Lock()
"""Folders of running jobs of this process, which are not leftovers."""

_LOG = structlog.get_logger(__name__)


def check_installed(settings: SparkSettings) -> None:
    """Check that this machine has everything that Spark's driver needs, if settings name a Spark.

    Raises:
        SettingsError: naming the missing part, and how to install it.
    """
    if not settings.master:
        return
    if importlib.util.find_spec("pyspark") is None:
        raise SettingsError(needs_extra("spark.master", "PySpark", "spark"))
    if java() is None:
        raise SettingsError(
            "spark.master is set, but no Java is found: install Java 17 or newer (apt-get install "
            "openjdk-17-jre-headless), or set JAVA_HOME"
        )


def java() -> str | None:
    """Return the Java that Spark would use; None if there is none."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which("java", path=str(Path(home) / "bin") if home else None)


class SparkApplication:
    """A running Spark application. `context` is PySpark's; `folder` is its job's."""

    def __init__(self, context: SparkContext, process: subprocess.Popen[bytes], folder: Path) -> None:
        self.context = context
        self.folder = folder
        self._process = process

    @property
    def cores(self) -> int:
        """How many tasks run at once."""
        return max(1, self.context.defaultParallelism)

    def abort(self) -> None:
        """Kill the application; its jobs fail."""
        self._process.kill()


@contextlib.contextmanager
def workplace(settings: SparkSettings, folder: Path) -> Iterator[Path]:
    """Give a new folder for one job in `settings.folder`, or else in `folder`; remove it afterwards.

    Leftovers of a killed process's jobs are removed first: they are encrypted, and their keys are gone.
    """
    parent = settings.folder or folder
    with _IN_USE_LOCK:
        for left in set(parent.glob(f"{PREFIX}*")) - _IN_USE:
            shutil.rmtree(left, ignore_errors=True)
        place = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        _IN_USE.add(place)
    try:
        yield place
    finally:
        # Spark's own shutdown removes its folders at the same time.
        shutil.rmtree(place, ignore_errors=True)
        _IN_USE.discard(place)


@contextlib.contextmanager
def session(settings: SparkSettings, place: Path) -> Iterator[SparkApplication]:
    """Give a session that works in a folder from `workplace`; waits until this process has no other session.

    Raises:
        SparkError: if the application cannot start or does not encrypt, if Spark's machines have another version of
            hubbub, or if the job fails.
    """
    with _ONE, _started(settings, place) as begun, failures():
        check_encrypted(begun.context)
        if not settings.master.startswith("local"):
            check_version(begun)
        yield begun


@contextlib.contextmanager
def failures() -> Iterator[None]:
    """Turn PySpark's exceptions into a `SparkError` with their first line; the rest are stacks of two languages."""
    from py4j.protocol import Py4JError, Py4JNetworkError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JError, Py4JNetworkError, PySparkException, ConnectionError, EOFError) as error:
        raise SparkError(f"a job on Spark failed: {_cause(error)}; it can be repeated") from error


def _cause(error: BaseException) -> str:
    found = getattr(error, "java_exception", None)
    with contextlib.suppress(Exception):  # the JVM that knows the cause may have been killed
        while found is not None and found.getCause() is not None:
            found = found.getCause()
        if found is not None:
            return str(found.toString()).strip().splitlines()[0][:300]
    lines = str(error).strip().splitlines()
    return lines[0][:300] if lines else type(error).__name__


def check_encrypted(context: SparkContext) -> None:
    """Check that the running application encrypts all sent and stored data, and keeps no event log.

    Raises:
        SparkError: naming the wrong settings.
    """
    # Read from the JVM: defaults and submit arguments may have changed the given settings.
    running: Any = context._jsc.sc().conf()
    wanted = {**ENCRYPTION, "spark.eventLog.enabled": "false"}
    found = {key: running.get(key, "") for key in wanted}
    wrong = [f"{key} is {found[key] or 'not set'}, not {value}" for key, value in wanted.items() if found[key] != value]
    if not context._encryption_enabled:
        wrong.append("what it stores is not encrypted")
    if wrong:
        raise SparkError(
            f"Spark does not encrypt everything, so it is not used: {'; '.join(wrong)}. Check Spark's settings and "
            "PYSPARK_SUBMIT_ARGS"
        )


def check_version(begun: SparkApplication, version: str = __version__) -> None:
    """Check that tasks on all cores find this version of hubbub.

    Raises:
        SparkError: naming the versions that they found.
    """

    # An inner function travels by value, so a machine without hubbub can run it.
    def found(_: object) -> Iterator[str]:
        with contextlib.suppress(ImportError):
            from hubbub import __version__ as installed

            yield installed

    versions = begun.context.parallelize(range(begun.cores), begun.cores).mapPartitions(found).collect()
    if versions != [version] * begun.cores:
        seen = ", ".join(sorted(set(versions))) or "no hubbub"
        raise SparkError(
            f"Spark's machines have {seen}, and {begun.cores - len(versions)} of {begun.cores} tasks found none, but "
            f"this service has {version}. Run pip install 'hubbub[spark]=={version}' there, or name a Python that "
            "has it in spark.python"
        )


@contextlib.contextmanager
def _started(settings: SparkSettings, folder: Path) -> Iterator[SparkApplication]:
    from pyspark import SparkContext
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway

    # PySpark's processes, and the Python workers after them, must import nothing from the current folder.
    remove_cwd_from_path()
    conf = _configuration(settings, folder)
    with (folder / "log").open("wb") as log, _environment(settings, folder):
        try:
            gateway = launch_gateway(conf, _Started(stdout=log, stderr=log))  # type: ignore[no-untyped-call]
        except PySparkException as error:
            raise SparkError(f"Spark does not start: {_told(folder)}") from error
    process: subprocess.Popen[bytes] = gateway.proc
    try:
        with failures(), _environment(settings, folder):
            context = SparkContext(conf=conf, gateway=gateway)
        _LOG.info("Spark session", master=settings.master, application=context.applicationId)
        try:
            yield SparkApplication(context, process, folder)
        finally:
            with contextlib.suppress(Exception):  # a JVM that was killed cannot be asked to stop
                context.stop()
    finally:
        _ended(gateway, process)


class _Started(dict[str, Any]):
    """The arguments with which PySpark starts its JVM. PySpark passes the whole environment; this keeps only `GIVEN`.

    This process's own environment stays unchanged meanwhile: other threads, such as a database driver, may read it.
    """

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, given(value) if name == "env" else value)


def given(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the part of an environment that the JVM and its Python workers get."""
    return subprocesses.environment({name: value for name, value in environment.items() if name in GIVEN})


def _configuration(settings: SparkSettings, folder: Path) -> SparkConf:
    from pyspark import SparkConf

    own = {
        "spark.master": settings.master,
        "spark.app.name": "hubbub",
        "spark.local.dir": str(folder),
        "spark.driver.host": settings.driver_host,
        "spark.driver.bindAddress": settings.driver_host,
        "spark.driver.memory": f"{settings.memory_mebibytes}m",
    }
    return SparkConf(loadDefaults=False).setAll([*own.items(), *ENCRYPTION.items(), *QUIET.items()])


@contextlib.contextmanager
def _environment(settings: SparkSettings, folder: Path) -> Iterator[None]:
    """Set the variables that PySpark reads only from the environment, during the block."""
    wanted = {
        "PYSPARK_PYTHON": settings.python or interpreter(),
        "PYSPARK_DRIVER_PYTHON": interpreter(),
        # It overrides spark.local.dir.
        "SPARK_LOCAL_DIRS": str(folder),
        "SPARK_LOCAL_IP": settings.driver_host,
    }
    if settings.configuration is not None:
        wanted["SPARK_CONF_DIR"] = str(settings.configuration)
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _ended(gateway: Any, process: subprocess.Popen[bytes]) -> None:
    """End the JVM and wait for it; forget it, since the next session starts another one."""
    from pyspark import SparkContext

    with contextlib.suppress(Exception):
        gateway.shutdown()
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None


def _told(folder: Path) -> str:
    """Return why Spark did not start, by the log of its JVM, and what may help."""
    log = (folder / "log").read_text("utf-8", "replace").splitlines()
    # After an error of the JVM, Spark's script logs its own, which does not name the cause.
    lines = [line.strip() for line in log if line.strip() and not _OF_SCRIPT.match(line)]
    why = lines[-1][:300] if lines else "it logged nothing"
    if "page as executable" in why:
        return (
            f"{why}; this process may not have memory that is writable and executable, which Java needs: set "
            "MemoryDenyWriteExecute=no in its unit (docs/howto/spark.md)"
        )
    return f"{why}; is spark.master right, and Java 17 or newer?"


def begin_task() -> None:
    """Protect a task's memory: Spark's Python workers have keys and envelopes in it, like our own processes."""
    disable_core_dumps()
