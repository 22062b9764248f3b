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
from hubbub.deploy.pki.rotation.authority_users import AuthorityUsers, users_of
from hubbub.deploy.pki.rotation.certificate import pair_of, shown_certificate
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
    """Rotates TLS authorities: one is active, at most one is pending, and any number are retired."""

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
        """Make a pending authority, whose certificates are trusted from now on."""
        of_operator(location, _WHAT)
        trusted = _trusted(location)
        _active, pending = _key_files(location)
        if KeyState.PENDING not in _states(trusted):
            # A key without its certificate is what a crash here left behind; nothing was ever issued with it.
            pending.unlink(missing_ok=True)
            made = Authority.generate(after=max(trusted, key=_made))
            made.save_key(pending)
            _write(location, [*trusted, made.certificate])
        return f"{_everywhere(location)}; once all have it, run `hubbub keys activate authority`"

    def activate(self, location: KeyLocation) -> str:
        """Issue certificates with the pending authority from now on, and destroy the previous authority's private key.

        Raises:
            HubbubError: if the pending key has no certificate.
        """
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
            return "nothing changed: no authority is pending; make one with `hubbub keys add authority`"
        # After a crash between the two files, the same call ends here. A key whose certificate was never written
        # does not match the active certificate, and must not replace the active key.
        try:
            check_pair(trusted[0], key_in(pending.read_bytes(), str(pending)), str(location.authority), str(pending))
        except TlsCertificateError as error:
            what = f"nothing changed: {pending} has no certificate; `hubbub keys add authority` makes a new one"
            raise HubbubError(what) from error
        pending.replace(active)
        return (
            "make a new certificate for every party, and for the proxy, front ends, readers and monitors if there "
            "are any (`hubbub certificate`); once all are in use, run `hubbub keys remove authority`"
        )

    def remove(self, location: KeyLocation, forced: bool = False) -> str:
        """End the trust in the retired authorities; if `forced`, although somebody shows a certificate of them.

        Raises:
            TlsCertificateError: if none of the others issued the operator's own certificate.
            HubbubError: naming who shows a certificate of a retired one.
        """
        of_operator(location, _WHAT)
        trusted = _trusted(location)
        kept = [each for each, state in zip(trusted, _states(trusted), strict=True) if state is not KeyState.RETIRED]
        chain = certificates_in(location.certificate.read_bytes(), str(location.certificate))
        own = TlsCertificate.of(chain[0], str(location.certificate))
        check_issued(chain, kept, own, "the authorities that would remain")
        users = users_of(location, kept) if len(kept) < len(trusted) else AuthorityUsers((), ())
        if users.cut_off and not forced:
            raise HubbubError(
                f"these still show a certificate of a retired authority, and would be cut off: "
                f"{'; '.join(users.cut_off)}. Make new ones with `hubbub certificate` and install them, also in the "
                "place of copies that you keep; or add --force"
            )
        _write(location, kept)
        _remove_untrusted(location, kept)
        unseen = f"not looked at: {'; '.join(users.unseen)}. " if users.unseen else ""
        return f"{unseen}{_everywhere(location)}"


def _remove_untrusted(location: KeyLocation, trusted: Sequence[x509.Certificate]) -> None:
    """Delete the operator's retired certificate and its key if nobody trusts it any more."""
    retired = pair_of(location, KeyState.RETIRED)
    if not retired[0].exists():
        return
    chain = certificates_in(retired[0].read_bytes(), str(retired[0]))
    try:
        check_issued(chain, trusted, TlsCertificate.of(chain[0], str(retired[0])), "the authorities that remain")
    except TlsCertificateError:
        for path in retired:
            path.unlink(missing_ok=True)


def _everywhere(location: KeyLocation) -> str:
    """Return who needs the file of authorities after a change."""
    # A proxy reads its file when it is loaded, and passes nothing on to a shuffler that it does not trust.
    return (
        f"replace the file of authorities of every party, device, reader and monitor by {location.authority}, "
        "and also that of the proxy, if there is one: reload it afterwards"
    )


def _key_files(location: KeyLocation) -> tuple[Path, Path]:
    """Return the files of the active and of the pending authority's private key, in the operator's folder."""
    folder = location.authority.parent.parent
    return folder / "authority.key", folder / "authority.next.key"


def _trusted(location: KeyLocation) -> list[x509.Certificate]:
    return certificates_in(location.authority.read_bytes(), str(location.authority))


def _states(trusted: Sequence[x509.Certificate]) -> list[KeyState]:
    """Return the state of each authority: the first is active, newer ones are pending, older ones are retired."""
    active = trusted[0]
    return [
        KeyState.ACTIVE if each == active else KeyState.PENDING if _made(each) > _made(active) else KeyState.RETIRED
        for each in trusted
    ]


def _made(certificate: x509.Certificate) -> float:
    return certificate.not_valid_before_utc.timestamp()


def _write(location: KeyLocation, trusted: Sequence[x509.Certificate]) -> None:
    save(location.authority, b"".join(each.public_bytes(serialization.Encoding.PEM) for each in trusted))
