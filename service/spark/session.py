"""A Spark application for one job of a service, encrypted wherever it sends or stores, or refused.

A session lasts for one batch. Afterwards its JVM and its Python workers are gone, and with them what their memory held
of keys and envelopes, and a cluster has its cores back until the next round.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog

from hubbub import __version__
from hubbub.service.processes import subprocesses
from hubbub.service.processes.hardening import disable_core_dumps
from hubbub.service.processes.subprocesses import interpreter, remove_cwd_from_path
from hubbub.service.settings import SettingsError, SparkSettings
from hubbub.service.spark.errors import SparkError

if TYPE_CHECKING:
    from pyspark import SparkConf, SparkContext

PREFIX = "hubbub-spark-"
"""Beginning of the names of folders that sessions work in."""

ENCRYPTION = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    # Authenticated, unlike the default of old: who changes bytes on the way is noticed.
    "spark.network.crypto.cipher": "AES/GCM/NoPadding",
    "spark.network.crypto.saslFallback": "false",
    "spark.io.encryption.enabled": "true",
    "spark.io.encryption.keySizeBits": "256",
}
"""What encrypts what Spark sends and what it spills; keys of rounds travel in tasks, and tasks are stored as blocks."""

QUIET = {
    "spark.eventLog.enabled": "false",
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    "spark.python.worker.reuse": "true",
    # A worker that finds its interpreter's address by itself prints no warning about it.
    "spark.ui.showConsoleProgress": "false",
}
"""No second copy of what runs, no port, no log of its own; a Python worker takes one task after the other."""

GIVEN = frozenset(
    {
        *("JAVA_HOME", "SPARK_CONF_DIR", "SPARK_LOCAL_DIRS", "SPARK_LOCAL_IP", "SPARK_CONNECT_MODE"),
        *("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "_PYSPARK_DRIVER_CONN_INFO_PATH"),
        *("HADOOP_HOME", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "KUBECONFIG", "KRB5_CONFIG", "KRB5CCNAME"),
    }
)
"""Variables that the JVM is given beside those of every child: where Java, Spark's settings and the cluster are."""

STOP_SECONDS = 10.0
"""How long a JVM may take to leave before it is killed."""

_ONE = threading.Lock()
"""A process has one session at a time: PySpark keeps its gateway in the class."""

_IN_USE: set[Path] = set()
_IN_USE_LOCK = threading.Lock()
"""Folders of jobs of this process: they are no leftovers."""

_LOG = structlog.get_logger(__name__)


def check_installed(settings: SparkSettings) -> None:
    """Return only if no Spark is asked for, or what its driver needs is on this machine.

    Raises:
        SettingsError: naming what is missing, and what brings it.
    """
    if not settings.master:
        return
    if importlib.util.find_spec("pyspark") is None:
        raise SettingsError("spark.master is set, but PySpark is not installed: pip install 'hubbub[spark]'")
    if java() is None:
        raise SettingsError(
            "spark.master is set, but no Java is found: install Java 17 or newer (apt-get install "
            "openjdk-17-jre-headless), or set JAVA_HOME"
        )


def java() -> str | None:
    """Return the Java that Spark would run with; None where there is none."""
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
    """Give a new folder for one job in `settings.folder`, or in `folder` where that names none; it is gone afterwards.

    What jobs of a process that was killed left there is removed first: it is enciphered, and its keys are gone.
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
    """Give a session that works in a folder `workplace` gave; waits for the one that this process has.

    Raises:
        SparkError: if the application cannot be started or does not encrypt, where another version of hubbub is on
            Spark's machines, and where the job fails.
    """
    with _ONE, _started(settings, place) as begun, failures():
        check_encrypted(begun.context)
        if not settings.master.startswith("local"):
            check_version(begun)
        yield begun


@contextlib.contextmanager
def failures() -> Iterator[None]:
    """Turn what PySpark raises into a `SparkError`: its first line, as the rest are two languages' stacks."""
    from py4j.protocol import Py4JError, Py4JNetworkError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JError, Py4JNetworkError, PySparkException, ConnectionError, EOFError) as error:
        raise SparkError(f"a job on Spark failed: {_cause(error)}; it can be done again") from error


def _cause(error: BaseException) -> str:
    found = getattr(error, "java_exception", None)
    with contextlib.suppress(Exception):  # the JVM that would say it may be what was killed
        while found is not None and found.getCause() is not None:
            found = found.getCause()
        if found is not None:
            return str(found.toString()).strip().splitlines()[0][:300]
    lines = str(error).strip().splitlines()
    return lines[0][:300] if lines else type(error).__name__


def check_encrypted(context: SparkContext) -> None:
    """Return only if the application that runs encrypts what it sends and what it stores, and keeps no event log.

    Raises:
        SparkError: naming what is not as it must be.
    """
    # Asked of the JVM, not of what was handed to it: defaults and submit arguments may have changed it.
    running: Any = context._jsc.sc().conf()
    wanted = {**ENCRYPTION, "spark.eventLog.enabled": "false"}
    found = {key: running.get(key, "") for key in wanted}
    wrong = [f"{key} is {found[key] or 'not set'}, not {value}" for key, value in wanted.items() if found[key] != value]
    if not context._encryption_enabled:
        wrong.append("what it stores is not encrypted")
    if wrong:
        raise SparkError(f"Spark is not used unencrypted: {'; '.join(wrong)}. Look at PYSPARK_SUBMIT_ARGS")


def check_version(begun: SparkApplication, version: str = __version__) -> None:
    """Return only if as many tasks as run at once find this version of hubbub.

    Raises:
        SparkError: naming what they found.
    """

    # In a function it travels whole: a machine without hubbub can run it.
    def found(_: object) -> Iterator[str]:
        with contextlib.suppress(ImportError):
            from hubbub import __version__ as installed

            yield installed

    versions = begun.context.parallelize(range(begun.cores), begun.cores).mapPartitions(found).collect()
    if versions != [version] * begun.cores:
        seen = ", ".join(sorted(set(versions))) or "no hubbub"
        raise SparkError(
            f"Spark's machines have {seen}, and {begun.cores - len(versions)} of {begun.cores} tasks found none; this "
            f"service has {version}: pip install 'hubbub[spark]=={version}' there, or name its Python in spark.python"
        )


@contextlib.contextmanager
def _started(settings: SparkSettings, folder: Path) -> Iterator[SparkApplication]:
    from pyspark import SparkContext
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway

    # What PySpark starts, and the Python workers after it, import nothing from the folder they are started in.
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
    """What PySpark starts its JVM with. It hands over the whole environment, of which this keeps what `GIVEN` names.

    This process's own environment stays as it is meanwhile: other threads may read it, as a database's driver does.
    """

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, given(value) if name == "env" else value)


def given(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what the JVM, and the Python workers that it starts, are given of an environment made for them."""
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
    """Say to PySpark what it reads from the environment alone."""
    wanted = {
        "PYSPARK_PYTHON": settings.python or interpreter(),
        "PYSPARK_DRIVER_PYTHON": interpreter(),
        # It goes before spark.local.dir.
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
    """End the JVM and wait for it; forget it, as the next session has another one."""
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
    lines = (folder / "log").read_text(errors="replace").strip().splitlines()
    return f"{lines[-1][:300] if lines else 'it says nothing'}; is spark.master right, and Java 17 or newer?"


def begin_task() -> None:
    """Begin a task's work: a Python worker of Spark's holds keys and envelopes, as our own processes do."""
    disable_core_dumps()
