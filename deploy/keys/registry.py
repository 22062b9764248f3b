"""The kinds of keys that `hubbub keys` knows."""

from __future__ import annotations

from hubbub.deploy.keys.authority import Authorities
from hubbub.deploy.keys.certificate import Certificates
from hubbub.deploy.keys.identity import Identities
from hubbub.deploy.keys.key import Kind, Shown
from hubbub.deploy.keys.master import Master

TURNED_OVER: dict[str, Kind] = {kind.name: kind for kind in (Certificates(), Authorities(), Master())}
"""The kinds that `hubbub keys` turns over, by name."""

KINDS: tuple[Shown, ...] = (Identities(), *TURNED_OVER.values())
"""Every kind, in the order in which they are shown."""
