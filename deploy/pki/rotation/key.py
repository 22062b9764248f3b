"""Defines the shown form of a party's key, the places of its keys, and the operations of every kind of key."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from hubbub.deploy.settings import OperatorSettings
from hubbub.protos.errors import HubbubError
from hubbub.protos.identity.keys import Role
from hubbub.protos.messages import KeyState
from hubbub.protos.task.schedule import at
from hubbub.protos.transport.channels import TLS
from hubbub.protos.transport.roles import READER, role_of
from hubbub.protos.transport.tls_files import TlsCertificate, certificates_in
from hubbub.service.settings import SettingsError, load

if TYPE_CHECKING:
    from hubbub.analyzer.settings import AnalyzerSettings as AnalyzerSettings
    from hubbub.shuffler.settings import ShufflerSettings as ShufflerSettings


class CertificateValidity(StrEnum):
    """Whether a certificate is within its validity."""

    VALID = "valid"
    EXPIRED = "expired"
    NOT_YET = "not valid yet"

    @classmethod
    def at(cls, since: float, until: float, now: float) -> CertificateValidity:
        """Return that of a certificate from `since` to `until`, in seconds since 1970."""
        if now < since:
            return cls.NOT_YET
        return cls.EXPIRED if now > until else cls.VALID


@dataclass(frozen=True)
class Key:
    """The description of a key that commands show; it never contains the key. Times are seconds since 1970.

    Attributes:
        kind: the name of its kind, as in `registry`.
        name: its name among keys of its kind.
        state: pending, active or retired.
        fingerprint: hex digits that distinguish it from others.
        since: when a master key came into its state, when an identity begins to sign (a pending one later than now),
            when a certificate becomes valid; None if that is not recorded.
        until: when it ends by itself; None if it does not.
        validity: whether a certificate is valid now; None of other keys, which `state` alone describes.
    """

    kind: str
    name: str
    state: KeyState
    fingerprint: str
    since: float | None = None
    until: float | None = None
    validity: CertificateValidity | None = None

    @property
    def shown_state(self) -> str:
        """The state as people read it: an active certificate that nobody accepts is not said to be active alone."""
        invalid = self.validity not in (None, CertificateValidity.VALID)
        return f"{self.state.value}, {self.validity}" if invalid else self.state.value

    def as_json(self) -> dict[str, Any]:
        """Return it for `--json`."""
        return {
            "kind": self.kind,
            "name": self.name,
            "state": self.state.value,
            "fingerprint": self.fingerprint,
            "since": _moment(self.since),
            "until": _moment(self.until),
            "validity": self.validity,
        }


def _moment(seconds: float | None) -> str | None:
    return None if seconds is None else at(int(seconds))


@dataclass(frozen=True)
class KeyLocation:
    """The places of a party's keys, from its settings.

    `identity` is None if the settings name none. `operator` has the settings themselves, if they are the operator's.
    `frontend` is true for a front end, which has a certificate of its own and signs nothing.
    """

    party: Role
    tls: TLS
    identity: Path | None
    successions: tuple[Path, ...] = ()
    tasks: tuple[Path, ...] = ()
    operator_key: Path | None = None
    operator: OperatorSettings | None = None
    frontend: bool = False

    @property
    def name(self) -> str:
        """The party's name in its certificate: its role, `frontend`, or for a hop `hop-2` and so on."""
        if self.frontend:
            return "frontend"
        # `hubbub init` names a hop's files after it.
        return self.certificate.stem if self.party is Role.HOP else self.party.value

    @property
    def certificate(self) -> Path:
        """The file of the party's TLS certificate."""
        return _named(self.tls.certificate, "tls.certificate")

    @property
    def certificate_key(self) -> Path:
        """The file of that certificate's private key."""
        return _named(self.tls.key, "tls.key")

    @property
    def authority(self) -> Path:
        """The file of the authorities whose TLS certificates are trusted."""
        return _named(self.tls.authority, "tls.authority")


def _named(path: Path | bytes | None, name: str) -> Path:
    if not isinstance(path, Path):
        raise HubbubError(f"the settings name no {name}; add `{name}`")
    return path


def location_of(settings: Path) -> KeyLocation:
    """Return the places of a party's keys, from its settings file: the operator's, or a service's.

    Raises:
        SettingsError: if it is none of these files, if it is a reader's, or cannot be used; the message gives the
            reason.
    """
    from hubbub.shuffler.settings import is_frontend, load_frontend

    names = _top_names(settings)
    # Each name is required in the settings of that party, and is in none that is looked at after it.
    if "state" in names and "shuffler_control" not in names:
        raise SettingsError(
            f"{settings} is the client's settings file, and a client has no such keys; give the operator's or a "
            "service's"
        )
    if "shuffler_control" in names:
        operator = load(settings, OperatorSettings, "operator")
        tls = operator.tls.paths()
        # A reader's settings are read as well as an operator's. A key made for them would be an operator's.
        if _is_reader(tls):
            raise SettingsError(
                f"{settings} has a reader's certificate, and a reader has no such keys; its next certificate is made "
                "by `hubbub certificate reader`; give the operator's settings or a service's"
            )
        return KeyLocation(Role.OPERATOR, tls, operator.identity, operator.successions, operator=operator)
    if "next" in names:
        from hubbub.shuffler.hop.settings import load as load_hop

        hop = load_hop(settings)
        return KeyLocation(Role.HOP, hop.tls.paths(), hop.identity)
    if is_frontend(settings):
        return KeyLocation(Role.SHUFFLER, load_frontend(settings).tls.paths(), None, frontend=True)
    if "shuffler_key" in names:  # a hop and a front end have it too
        from hubbub.analyzer.settings import load as load_analyzer

        return _of_service(Role.ANALYZER, load_analyzer(settings))
    from hubbub.shuffler.settings import load as load_shuffler

    return _of_service(Role.SHUFFLER, load_shuffler(settings))


def _is_reader(tls: TLS) -> bool:
    try:
        pem = _named(tls.certificate, "tls.certificate").read_bytes()
        found = TlsCertificate.of(certificates_in(pem, "")[0], "")
    except (OSError, HubbubError):
        return False  # what reads it next names the fault
    return role_of(found.party) == READER


def _of_service(role: Role, found: AnalyzerSettings | ShufflerSettings) -> KeyLocation:
    return KeyLocation(role, found.tls.paths(), found.identity, found.successions, found.tasks, found.operator_key)


def _top_names(settings: Path) -> set[str]:
    try:
        return set(tomllib.loads(settings.read_text(encoding="utf-8-sig")))
    except (OSError, ValueError, RecursionError):
        return set()  # `location_of` then reads it as a shuffler's settings, and that error names the fault


@dataclass(frozen=True)
class KeyRequest:
    """The options for a new key. Each is None if it is not given; not every kind has all of them.

    Attributes:
        authority: the operator's folder, with the authority that makes a certificate.
        hosts: the names and addresses of a service.
        begins: the time from which an identity signs, in seconds since 1970.
        witness: the file with the public key of the witness of a succession.
    """

    authority: Path | None = None
    hosts: Sequence[str] | None = None
    begins: int | None = None
    witness: Path | None = None


class KeyRotation(Protocol):
    """A kind of key that is rotated: a pending key is added, activated, retired by the next one, and removed.

    Every change is idempotent, and returns a sentence that names the next step.
    """

    name: str
    """The name on the command line."""

    def held(self, location: KeyLocation) -> list[Key]:
        """Return the party's keys of this kind, the active one first; an empty list if it has none here.

        Raises:
            HubbubError, OSError: if they cannot be read.
        """

    def add(self, location: KeyLocation, request: KeyRequest) -> str:
        """Make a pending key."""

    def activate(self, location: KeyLocation) -> str:
        """Make the pending key the active one; the previous one is then retired."""

    def remove(self, location: KeyLocation, forced: bool = False) -> str:
        """Destroy the retired keys, or end the trust in them; `forced` is for an authority that is still in use."""


ORDER = {KeyState.ACTIVE: 0, KeyState.PENDING: 1, KeyState.RETIRED: 2}
"""The order in which keys of a kind are shown."""


def of_operator(location: KeyLocation, what: str) -> OperatorSettings:
    """Return the operator's settings.

    Raises:
        HubbubError: if the keys are another party's; `what` names the kind of key that only the operator changes.
    """
    if location.operator is None:
        raise HubbubError(f"only the operator changes {what}; give the operator's settings file")
    return location.operator
