"""The kinds of keys that `hubbub keys` knows."""

from __future__ import annotations

from hubbub.deploy.keys.authority import Authorities
from hubbub.deploy.keys.certificate import Certificates
from hubbub.deploy.keys.identity import Identities
from hubbub.deploy.keys.key import Kind
from hubbub.deploy.keys.master import Master

KINDS: dict[str, Kind] = {kind.name: kind for kind in (Identities(), Certificates(), Authorities(), Master())}
"""Every kind by its name, in the order in which they are shown."""
