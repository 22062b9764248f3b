"""Defines the admitted devices and the secrets of a round, as a leader sends them to front ends."""

from __future__ import annotations

from dataclasses import dataclass, field

from hubbub.protos.messages import KeyState

BLOCK_KEY_BYTES = 32
STORAGE_BYTES = 128
"""Length of the keys for storing a round's submissions: the key of blocks first, then those of ids and digests."""

VERSION_BYTES = 16
"""Length of the name of a version of the admitted devices."""


@dataclass(frozen=True)
class MasterSecret:
    """A master key (32 bytes; never printed) that makes devices' credentials, with its generation and its state.

    `since` is the time at which it entered that state, in seconds since 1970.
    """

    generation: int
    secret: bytes = field(repr=False)
    state: KeyState
    since: int


@dataclass(frozen=True)
class RedeemedTicket:
    """A ticket's device, the hash of the redeeming secret, the number drawn for it, its expiry (seconds since 1970)."""

    device: bytes = field(repr=False)
    redeemed_by: bytes = field(repr=False)
    number: bytes = field(repr=False)
    expires: int


@dataclass(frozen=True)
class Revoked:
    """Revoked devices: the devices of their tickets, and the numbers of those whose tickets were redeemed."""

    devices: frozenset[bytes] = field(default=frozenset(), repr=False)
    numbers: frozenset[bytes] = field(default=frozenset(), repr=False)


@dataclass(frozen=True)
class Admitted:
    """The master keys and the revoked devices; `version` names this state at the leader."""

    version: bytes
    masters: tuple[MasterSecret, ...] = ()
    revoked: Revoked = Revoked()
    oblivious_records: bytes = b""
    """The signed oblivious key, as devices get it (`protos.oblivious.key_records`)."""


@dataclass(frozen=True)
class RoundSecrets:
    """The secrets to open, identify and store the submissions of a round.

    Once the round is cut, `private_key` is empty and `storage` lacks the key of blocks; the rest answers retries.
    """

    storage: bytes = field(repr=False)
    pseudonym_key: bytes = field(default=b"", repr=False)
    private_key: bytes = field(default=b"", repr=False)
