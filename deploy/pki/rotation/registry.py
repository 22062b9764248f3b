"""The kinds of keys that `hubbub keys` knows."""

from __future__ import annotations

from hubbub.deploy.pki.rotation.authority import Authorities
from hubbub.deploy.pki.rotation.certificate import Certificates
from hubbub.deploy.pki.rotation.identity import Identities
from hubbub.deploy.pki.rotation.key import Kind
from hubbub.deploy.pki.rotation.master_key import Master

KINDS: dict[str, Kind] = {kind.name: kind for kind in (Identities(), Certificates(), Authorities(), Master())}
"""Every kind by its name, in the order in which they are shown."""
