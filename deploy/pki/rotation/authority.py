"""Authority: who makes TLS certificates. The file that everybody trusts holds all that are pending, active or retired.

The first certificate in it is the active one's. One that was made later is pending: trusted, and issuing nothing yet.
One that was made earlier is retired: what it issued is still trusted.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from hubbub.deploy.files import save
from hubbub.deploy.pki.authority import Authority
from hubbub.deploy.pki.rotation.certificate import shown_certificate
from hubbub.deploy.pki.rotation.key import ORDER, Key, Place, Wanted, of_operator
from hubbub.protos.errors import HubbubError
from hubbub.protos.messages import KeyState
from hubbub.protos.transport.tls_files import (
    Certificate,
    CertificateError,
    certificates_in,
    check_issued,
    check_pair,
    key_in,
)

_WHAT = "the TLS authority"


class Authorities:
    """TLS authorities: one active, at most one pending, any number of retired ones."""

    name = "authority"

    def held(self, place: Place) -> list[Key]:
        """Read the file of authorities that the party trusts."""
        trusted = _trusted(place)
        keys = [
            shown_certificate(self.name, f"authority-{each.serial_number:x}"[:20], state, each)
            for each, state in zip(trusted, _states(trusted), strict=True)
        ]
        return sorted(keys, key=lambda key: ORDER[key.state])

    def add(self, place: Place, _wanted: Wanted) -> str:
        """Make an authority, and trust its certificates from now on."""
        of_operator(place, _WHAT)
        trusted = _trusted(place)
        _active, pending = _key_files(place)
        if KeyState.PENDING not in _states(trusted):
            # A key without its certificate is what a crash here left behind; nothing was ever issued with it.
            pending.unlink(missing_ok=True)
            made = Authority.generate(after=max(trusted, key=_made))
            made.save_key(pending)
            _write(place, [*trusted, made.certificate])
        return (
            f"give {place.authority} to every party and device in the place of the one they have; once all have it, "
            "`hubbub keys activate authority`"
        )

    def activate(self, place: Place) -> str:
        """Issue with the pending authority from now on; the private key of the one before is destroyed."""
        of_operator(place, _WHAT)
        trusted = _trusted(place)
        active, pending = _key_files(place)
        states = _states(trusted)
        if KeyState.PENDING in states:
            following = trusted[states.index(KeyState.PENDING)]
            private = key_in(pending.read_bytes(), str(pending))
            check_pair(following, private, str(place.authority), str(pending))
            _write(place, [following, *(each for each in trusted if each != following)])
            states, trusted = _states(_trusted(place)), _trusted(place)
        elif not pending.exists():
            return "no authority is pending, so nothing changed; `hubbub keys add authority` makes one"
        # After a crash between the two files, the same call ends here. A key whose certificate was never written is
        # another one: it must not take the place of the one that is in use.
        try:
            check_pair(trusted[0], key_in(pending.read_bytes(), str(pending)), str(place.authority), str(pending))
        except CertificateError as error:
            what = f"{pending} has no certificate, so nothing changed; `hubbub keys add authority` begins anew"
            raise HubbubError(what) from error
        pending.replace(active)
        return (
            "make every party's certificate anew (`hubbub keys add certificate`, or `hubbub certificate`); once all "
            "use theirs, `hubbub keys remove authority`"
        )

    def remove(self, place: Place) -> str:
        """Trust the retired authorities no more, once the operator's own certificate is not of one of them."""
        of_operator(place, _WHAT)
        trusted = _trusted(place)
        kept = [each for each, state in zip(trusted, _states(trusted), strict=True) if state is not KeyState.RETIRED]
        chain = certificates_in(place.certificate.read_bytes(), str(place.certificate))
        own = Certificate.of(chain[0], str(place.certificate))
        check_issued(chain, kept, own, "the authorities that would be left")
        _write(place, kept)
        return f"give {place.authority} to every party and device in the place of the one they have"


def _key_files(place: Place) -> tuple[Path, Path]:
    """Return the files of the active and of the pending authority's private key, in the operator's folder."""
    folder = place.authority.parent.parent
    return folder / "authority.key", folder / "authority.next.key"


def _trusted(place: Place) -> list[x509.Certificate]:
    return certificates_in(place.authority.read_bytes(), str(place.authority))


def _states(trusted: Sequence[x509.Certificate]) -> list[KeyState]:
    """Return the state of each authority: by its place for the active one, by its age for all others."""
    active = trusted[0]
    return [
        KeyState.ACTIVE if each == active else KeyState.PENDING if _made(each) > _made(active) else KeyState.RETIRED
        for each in trusted
    ]


def _made(certificate: x509.Certificate) -> float:
    return certificate.not_valid_before_utc.timestamp()


def _write(place: Place, trusted: Sequence[x509.Certificate]) -> None:
    save(place.authority, b"".join(each.public_bytes(serialization.Encoding.PEM) for each in trusted))
