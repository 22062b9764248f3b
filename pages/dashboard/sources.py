"""Opens what a dashboard shows: the services of a settings file, or results that were saved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography.x509.oid import NameOID

from hubbub.deploy.settings import OperatorSettings
from hubbub.pages.dashboard.checked_results import ResultsReader
from hubbub.protos.errors import UsageError
from hubbub.protos.messages import ListedTask
from hubbub.protos.records.results import RoundId
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.transport.roles import OPERATORS, role_of
from hubbub.protos.transport.tls_files import certificates_in
from hubbub.results import ResultsTable, SavedResults, ServiceReader, keys_in, open_saved
from hubbub.service.settings import load
from hubbub.verification.pins import Pins

SETTINGS = ".toml"
"""The ending of a settings file; everything else is saved results."""


@dataclass(frozen=True)
class TwoReaders:
    """Reads by one reader, which verifies, and by one that does not: pages show at once, and show a wrong signature."""

    verifying: SavedResults | ServiceReader
    plain: SavedResults | ServiceReader

    def tasks(self) -> tuple[ListedTask, ...]:
        return self.plain.tasks()

    def task(self, task: str) -> SignedTask:
        return self.plain.task(task)

    def rounds(self, task: str | None = None) -> tuple[RoundId, ...]:
        return self.plain.rounds(task)

    def read(self, task: str | None = None, rounds: Sequence[int] | None = None) -> ResultsTable:
        return self.verifying.read(task, rounds)

    def look(self, task: str, number: int) -> ResultsTable:
        return self.plain.read(task, [number])


@dataclass(frozen=True)
class OpenedSource:
    """What a dashboard shows, and with what it may ask and act."""

    reader: ResultsReader
    pins: Pins
    source: str
    services: OperatorSettings | None = None
    acts: bool = False


def opened(paths: Sequence[Path], keys: Path | None) -> OpenedSource:
    """Open a settings file, or saved results; `keys` is a folder of public keys.

    Without `keys`, those in the folder `trust` beside a settings file are known, and none for saved results.

    Raises:
        UsageError: if a settings file is named beside something else, or there are no results.
        SettingsError: if the settings cannot be used.
        NotVerified: if a file has no readable results.
    """
    if any(path.suffix == SETTINGS for path in paths):
        if len(paths) > 1:
            raise UsageError("a dashboard shows one settings file, or saved results; name one of these alone")
        return _of_services(paths[0], keys)
    pins = Pins() if keys is None else keys_in(keys)
    readers = (open_saved(*paths, keys=pins, verify=verify) for verify in (True, False))
    return OpenedSource(TwoReaders(*readers), pins, f"files: {', '.join(map(str, paths))}")


def _of_services(path: Path, keys: Path | None) -> OpenedSource:
    settings = load(path, OperatorSettings, "operator")
    trust = path.parent / "trust"
    folder = trust if keys is None and trust.is_dir() else keys
    pins = Pins() if folder is None else keys_in(folder)
    tls = settings.tls.paths()
    readers = (ServiceReader(settings.analyzer_results, tls, pins, verify=verify) for verify in (True, False))
    source = f"the analyzer at {settings.analyzer_results}"
    return OpenedSource(TwoReaders(*readers), pins, source, settings, is_operator(settings))


def is_operator(settings: OperatorSettings) -> bool:
    """Return whether the certificate of these settings is the operator's, which services let act."""
    path = settings.tls.paths().certificate
    if path is None:
        return False
    certificate = certificates_in(path.read_bytes(), str(path))[0]
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return len(names) == 1 and role_of(str(names[0].value)) in OPERATORS
