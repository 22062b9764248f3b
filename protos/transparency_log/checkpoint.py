"""Reads and checks checkpoints: what a log's tree was at one size, signed by the log and by those who witness it.

A checkpoint is C2SP's (c2sp.org/tlog-checkpoint): the log's name, the number of entries and the tree's root, each on a
line, as a signed note. A witness signs it with the time at which it saw no larger one that was consistent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hubbub.protos.identity.keys import Identity
from hubbub.protos.merkle import EMPTY_ROOT, NODE_BYTES
from hubbub.protos.transparency_log.signed_notes import (
    LogError,
    NoteKey,
    NoteRole,
    NoteSignature,
    hash_in,
    hash_line,
    is_name,
    note_of,
    read_note,
    sign_note,
)
from hubbub.queries.errors import shown

MOST_LOGGED = 2**48
"""Entries of a log at most: more than anybody adds, and few enough that no path of a tile is long."""

_DIGITS = len(str(MOST_LOGGED))


@dataclass(frozen=True)
class TrustedLog:
    """The keys by which a reader knows a log and its witnesses, and how many of these must have signed.

    A witness is a key. One that is known by two names, as after it took another, counts once.

    Raises:
        LogError: if more witnesses must sign than are known, if one is the log itself, or if two have one name.
    """

    log: NoteKey
    witnesses: Sequence[NoteKey] = ()
    needed: int = 0

    def __post_init__(self) -> None:
        known = count_witnesses(self.witnesses)
        if not 0 <= self.needed <= known:
            raise LogError(
                f"{self.needed} witnesses must have signed, but {known} are known, each by its key; give the key of "
                "each"
            )
        if self.log.public in {each.public for each in self.witnesses}:
            raise LogError("the log's own key is given for a witness; give the keys of other parties")


def count_witnesses(keys: Sequence[NoteKey]) -> int:
    """Return how many witnesses have these keys: as many as there are different ones, whatever their names.

    Raises:
        LogError: if two keys have one name. A name is of one party, and a party with two keys would count twice. Nor
            could anybody tell them apart, as witnesses are named by their names.
    """
    public: dict[str, bytes] = {}
    for key in keys:
        if public.setdefault(key.name, key.public) != key.public:
            raise LogError(
                f"two keys are given for witness {key.name}, and one party counts once; give the one with which it "
                "signs now"
            )
    return len(set(public.values()))


@dataclass(frozen=True)
class Checkpoint:
    """The log's name (its origin), the number of its entries, and the root (32 bytes) of the tree over them.

    Raises:
        LogError: if there cannot be such a tree, or such a name: it may be of a log that nobody knows yet.
    """

    origin: str
    size: int = 0
    root: bytes = EMPTY_ROOT

    def __post_init__(self) -> None:
        if not is_name(self.origin):
            raise LogError(
                f"not a checkpoint: no log has the name {shown(self.origin)}; give the file as the log has it"
            )
        if not 0 <= self.size <= MOST_LOGGED or (self.size == 0) is not (self.root == EMPTY_ROOT):
            raise LogError(
                f"not a checkpoint: no tree of {self.size} entries has that root; give the file as the log has it"
            )

    @property
    def text(self) -> str:
        """The text that is signed."""
        return f"{self.origin}\n{self.size}\n{hash_line(self.root)}\n"

    @classmethod
    def read(cls, text: str) -> Checkpoint:
        """Read what `text` wrote.

        Raises:
            LogError: if it is none.
        """
        try:
            origin, size, root, _end = text.split("\n")
            # A text of very many digits is not made a number.
            number = int(size) if size.isascii() and size.isdigit() and len(size) <= _DIGITS else -1
            found = cls(origin, number, hash_in(root, NODE_BYTES))
        except ValueError as error:
            raise LogError(
                f"not a checkpoint, which has a log's name, its size and its root, a line each: {error!s:.200}; give "
                "the file as the log has it"
            ) from error
        # Written again, it is the same: so nothing in it is ignored, such as zeros before a number.
        if found.text != text:
            raise LogError(f"not a checkpoint in its one form: {shown(text)}; give the file as the log has it")
        return found


@dataclass(frozen=True)
class SignedCheckpoint:
    """A checkpoint with its signatures; those of keys that a reader does not know are kept, and say nothing."""

    checkpoint: Checkpoint
    signatures: tuple[NoteSignature, ...] = ()

    @property
    def size(self) -> int:
        """The number of entries."""
        return self.checkpoint.size

    @classmethod
    def made(cls, checkpoint: Checkpoint, identity: Identity) -> SignedCheckpoint:
        """Sign a checkpoint as its log."""
        key = NoteKey(checkpoint.origin, NoteRole.LOG, identity.public)
        return cls(checkpoint, (sign_note(checkpoint.text, key, identity),))

    def witnessed(self, key: NoteKey, identity: Identity, time: int) -> SignedCheckpoint:
        """Add the signature of a witness, in place of an earlier one of its own."""
        return self.with_signature(sign_note(self.checkpoint.text, key, identity, time))

    def with_signature(self, signature: NoteSignature) -> SignedCheckpoint:
        """Add a signature, in place of an earlier one by the same key."""
        same = (signature.name, signature.key_id)
        others = tuple(each for each in self.signatures if (each.name, each.key_id) != same)
        return replace(self, signatures=(*others, signature))

    def without_strangers(self, *known: NoteKey) -> SignedCheckpoint:
        """Return it with the signatures of known keys alone."""
        return replace(self, signatures=tuple(each for each in self.signatures if any(map(each.is_of, known))))

    def encode(self) -> bytes:
        """Return its bytes, which are the content of a log's file `checkpoint`."""
        return note_of(self.checkpoint.text, self.signatures)

    @classmethod
    def decode(cls, note: bytes) -> SignedCheckpoint:
        """Read what `encode` wrote; its signatures are still to be checked.

        Raises:
            LogError: if it is none.
        """
        text, signatures = read_note(note)
        found = cls(Checkpoint.read(text), signatures)
        if len({(each.name, each.key_id) for each in signatures}) < len(signatures):
            raise LogError("a key has signed the checkpoint twice; get it again from the log")
        return found

    def signature_of(self, key: NoteKey) -> NoteSignature | None:
        """Return the signature that says that it is by that key."""
        return next((each for each in self.signatures if each.is_of(key)), None)

    def check(self, trusted: TrustedLog) -> Mapping[str, int]:
        """Check the log's signature and those of its witnesses; return when each witness signed, by name.

        A key that has signed under two names counts once, by the name of its latest signature.

        Raises:
            LogError: if it is of another log, if a signature of a known key is wrong, or if too few have signed.
        """
        log = trusted.log
        if self.checkpoint.origin != log.name:
            raise LogError(
                f"the checkpoint is of log {shown(self.checkpoint.origin)}, not of {log.name}; give the key of that "
                "log, or a checkpoint of this one"
            )
        signature = self.signature_of(log)
        if signature is None:
            raise LogError(f"log {log.name} has not signed the checkpoint with the key given; compare the log's key")
        signature.check(log, self.checkpoint.text)
        signed: dict[bytes, tuple[int, str]] = {}
        for witness in trusted.witnesses:
            by = self.signature_of(witness)
            if by is not None:
                found = (by.check(witness, self.checkpoint.text) or 0, witness.name)
                signed[witness.public] = max(found, signed.get(witness.public, found))
        times = {name: time for time, name in signed.values()}
        if len(times) < trusted.needed:
            raise LogError(
                f"{len(times)} of the known witnesses have signed the checkpoint of {self.size} entries, but "
                f"{trusted.needed} must have; get a later one from the log, once they have signed"
            )
        return times
