"""Identity: the Ed25519 key that a party signs with. Tasks name it, so it is shown here and changes with tasks."""

from __future__ import annotations

from hubbub.deploy.keys.key import Key, Place
from hubbub.protos.keys import Identity
from hubbub.protos.messages import KeyState
from hubbub.protos.signed import fingerprint


class Identities:
    """A party's identity."""

    name = "identity"

    def held(self, place: Place) -> list[Key]:
        """Read the private key, where this machine has it."""
        if place.identity is None or not place.identity.exists():
            return []
        public = Identity.load(place.identity).public
        return [Key(self.name, place.identity.stem, KeyState.ACTIVE, fingerprint(public))]
