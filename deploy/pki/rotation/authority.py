"""Rotates the authorities that issue TLS certificates. The trusted file has all pending, active and retired ones.

The first certificate in it is the active one. A later one is pending: it is trusted, but issues nothing yet. An earlier
one is retired: its certificates are still trusted.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from hubbub.deploy.files import save
from hubbub.deploy.pki.authority import Authority
from hubbub.deploy.pki.rotation.certificate import shown_certificate
from hubbub.deploy.pki.rotation.key import ORDER, Key, KeyLocation, KeyRequest, of_operator
from hubbub.protos.errors import HubbubError
from hubbub.protos.messages import KeyState
from hubbub.protos.transport.tls_files import (
    TlsCertificate,
    TlsCertificateError,
    certificates_in,
    check_issued,
    check_pair,
    key_in,
)

_WHAT = "the TLS authority"


class AuthorityRotation:
    """TLS authorities: one active, at most one pending, any number of retired ones."""

    name = "authority"

    def held(self, location: KeyLocation) -> list[Key]:
        """Read the file of authorities that the party trusts."""
        trusted = _trusted(location)
        keys = [
            shown_certificate(self.name, f"authority-{each.serial_number:x}"[:20], state, each)
            for each, state in zip(trusted, _states(trusted), strict=True)
        ]
        return sorted(keys, key=lambda key: ORDER[key.state])

    def add(self, location: KeyLocation, _request: KeyRequest) -> str:
        """Make an authority, and trust its certificates from now on."""
        of_operator(location, _WHAT)
        trusted = _trusted(location)
        _active, pending = _key_files(location)
        if KeyState.PENDING not in _states(trusted):
            # A key without its certificate is what a crash here left behind; nothing was ever issued with it.
            pending.unlink(missing_ok=True)
            made = Authority.generate(after=max(trusted, key=_made))
            made.save_key(pending)
            _write(location, [*trusted, made.certificate])
        return (
            f"give {location.authority} to every party and device in the place of the one they have; once all have it, "
            "`hubbub keys activate authority`"
        )

    def activate(self, location: KeyLocation) -> str:
        """Issue with the pending authority from now on; the private key of the one before is destroyed."""
        of_operator(location, _WHAT)
        trusted = _trusted(location)
        active, pending = _key_files(location)
        states = _states(trusted)
        if KeyState.PENDING in states:
            following = trusted[states.index(KeyState.PENDING)]
            private = key_in(pending.read_bytes(), str(pending))
            check_pair(following, private, str(location.authority), str(pending))
            _write(location, [following, *(each for each in trusted if each != following)])
            states, trusted = _states(_trusted(location)), _trusted(location)
        elif not pending.exists():
            return "no authority is pending, so nothing changed; `hubbub keys add authority` makes one"
        # After a crash between the two files, the same call ends here. A key whose certificate was never written is
        # another one: it must not take the place of the one that is in use.
        try:
            check_pair(trusted[0], key_in(pending.read_bytes(), str(pending)), str(location.authority), str(pending))
        except TlsCertificateError as error:
            what = f"{pending} has no certificate, so nothing changed; `hubbub keys add authority` begins anew"
            raise HubbubError(what) from error
        pending.replace(active)
        return (
            "make every party's certificate anew (`hubbub keys add certificate`, or `hubbub certificate`); once all "
            "use theirs, `hubbub keys remove authority`"
        )

    def remove(self, location: KeyLocation) -> str:
        """Trust the retired authorities no more, once the operator's own certificate is not of one of them."""
        of_operator(location, _WHAT)
        trusted = _trusted(location)
        kept = [each for each, state in zip(trusted, _states(trusted), strict=True) if state is not KeyState.RETIRED]
        chain = certificates_in(location.certificate.read_bytes(), str(location.certificate))
        own = TlsCertificate.of(chain[0], str(location.certificate))
        check_issued(chain, kept, own, "the authorities that would be left")
        _write(location, kept)
        return f"give {location.authority} to every party and device in the place of the one they have"


def _key_files(location: KeyLocation) -> tuple[Path, Path]:
    """Return the files of the active and of the pending authority's private key, in the operator's folder."""
    folder = location.authority.parent.parent
    return folder / "authority.key", folder / "authority.next.key"


def _trusted(location: KeyLocation) -> list[x509.Certificate]:
    return certificates_in(location.authority.read_bytes(), str(location.authority))


def _states(trusted: Sequence[x509.Certificate]) -> list[KeyState]:
    """Return the state of each authority: by its place for the active one, by its age for all others."""
    active = trusted[0]
    return [
        KeyState.ACTIVE if each == active else KeyState.PENDING if _made(each) > _made(active) else KeyState.RETIRED
        for each in trusted
    ]


def _made(certificate: x509.Certificate) -> float:
    return certificate.not_valid_before_utc.timestamp()


def _write(location: KeyLocation, trusted: Sequence[x509.Certificate]) -> None:
    save(location.authority, b"".join(each.public_bytes(serialization.Encoding.PEM) for each in trusted))
