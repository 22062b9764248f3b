"""Who is admitted, and the secrets of a round."""

from __future__ import annotations

from dataclasses import dataclass, field

from hubbub.protos.messages import KeyState

BLOCK_KEY_BYTES = 32
STORAGE_BYTES = 128
"""Length of the keys that a round's submissions are stored under: the one of blocks first, then those of ids and
digests."""

VERSION_BYTES = 16
"""Length of the name of what is admitted at a moment."""


@dataclass(frozen=True)
class MasterSecret:
    """A master key (32 bytes; never printed) that devices' credentials are made with, its generation and its state.

    `since` is when it came into that state, in seconds since 1970.
    """

    generation: int
    secret: bytes = field(repr=False)
    state: KeyState
    since: int


@dataclass(frozen=True)
class RedeemedTicket:
    """A ticket's device, a hash of the secret it was redeemed by, the number drawn for it, its expiry since 1970."""

    device: bytes = field(repr=False)
    redeemed_by: bytes = field(repr=False)
    number: bytes = field(repr=False)
    expires: int


@dataclass(frozen=True)
class Revoked:
    """Revoked devices: the devices of tickets, and the numbers of those among them whose tickets were redeemed."""

    devices: frozenset[bytes] = field(default=frozenset(), repr=False)
    numbers: frozenset[bytes] = field(default=frozenset(), repr=False)


@dataclass(frozen=True)
class Admitted:
    """The master keys and the revoked devices; `version` names what this is at the leader."""

    version: bytes
    masters: tuple[MasterSecret, ...] = ()
    revoked: Revoked = Revoked()


@dataclass(frozen=True)
class RoundSecrets:
    """What submissions of a round are opened, placed and stored with.

    Once the round is cut there is no `private_key`, and `storage` has no key of blocks: retries are answered with it.
    """

    storage: bytes = field(repr=False)
    pseudonym_key: bytes = field(default=b"", repr=False)
    private_key: bytes = field(default=b"", repr=False)
