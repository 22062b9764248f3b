"""Lists the kinds of keys that `hubbub keys` knows."""

from __future__ import annotations

from hubbub.deploy.pki.rotation.authority import AuthorityRotation
from hubbub.deploy.pki.rotation.certificate import CertificateRotation
from hubbub.deploy.pki.rotation.identity import IdentityRotation
from hubbub.deploy.pki.rotation.key import KeyRotation
from hubbub.deploy.pki.rotation.master_key import MasterKeyRotation

ROTATIONS: dict[str, KeyRotation] = {
    kind.name: kind for kind in (IdentityRotation(), CertificateRotation(), AuthorityRotation(), MasterKeyRotation())
}
"""Every kind by its name, in the order in which they are shown."""
