"""Computes Merkle trees as RFC 9162 defines them (section 2.1): one signature over a root covers every leaf.

Lists of tickets (`enrollment.tickets`) and transparency logs (`log`) are such trees.

Leaves and inner nodes are hashed with prefixes of their own. Otherwise the two hashes below a node would make up a leaf
that nobody signed. A root is worth something with the tree's size alone: with another size it would have other leaves.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hubbub.protos.errors import SignatureError

NODE_BYTES = 32
"""Length of the hash of a leaf or an inner node (SHA-256)."""

EMPTY_ROOT = hashlib.sha256().digest()
"""The root of a tree without leaves."""

NodeAt = Callable[[int, int], bytes]
"""Returns the root of a full subtree, by its height and its number among those of that height, from the left."""


def leaf_hash(leaf: bytes) -> bytes:
    """Return the hash (32 bytes) of a leaf."""
    return hashlib.sha256(b"\x00" + leaf).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Return the hash (32 bytes) of the inner node above two others."""
    return hashlib.sha256(b"\x01" + left + right).digest()


def joined(hashes: bytes) -> bytes:
    """Return the hashes of the next level of a tree, in one: of each two of these, and of no single one at the end."""
    # As `node_hash`, without a call and two copies for each: proofs of a log spend nearly all of their time here.
    sha256, last = hashlib.sha256, len(hashes) - NODE_BYTES
    pairs = range(0, last, 2 * NODE_BYTES)
    return b"".join([sha256(b"\x01" + hashes[start : start + 2 * NODE_BYTES]).digest() for start in pairs])


@dataclass(frozen=True, init=False)
class InclusionProof:
    """The place of a leaf in a tree of `size` leaves, and the hashes beside its way up to the root, in one.

    Raises:
        SignatureError: if there is no such place, or if its way has another number of hashes.
    """

    index: int = 0
    size: int = 1
    path: bytes = field(default=b"", repr=False)

    def __init__(self, index: int = 0, size: int = 1, path: bytes = b"") -> None:
        # One is made for each ticket; the `__init__` of a frozen `dataclass` takes three times as long.
        fields = self.__dict__
        fields["index"], fields["size"], fields["path"] = index, size, path
        if not 0 <= index < size:
            raise SignatureError(
                f"there is no leaf {index} in a tree of {size}; give the ticket or the proof as it was made"
            )
        inner = self._inner
        expected = NODE_BYTES * (inner + (index >> inner).bit_count())
        if len(path) != expected:
            raise SignatureError(
                f"the path of leaf {index} in a tree of {size} has {len(path)} bytes, not {expected}; "
                "give the ticket or the proof as it was made"
            )

    @property
    def _inner(self) -> int:
        """How many steps up are below the way of the last leaf: there a node always has a neighbor.

        Beginning at that step, the leaf's way is the last leaf's, at the right edge of the tree. A node there is a
        right child where its bit of the index is 1. Where it is 0, it has no neighbor, and goes up unchanged.
        """
        return (self.index ^ (self.size - 1)).bit_length()

    def root(self, leaf: bytes) -> bytes:
        """Return the root (32 bytes) of the tree in which the leaf with this hash has this place."""
        index, path = self.index, self.path
        # Bit by bit as far as there are neighbors on both sides; above, only left neighbors have hashes in the path.
        inner, node = self._inner * NODE_BYTES, leaf
        for start in range(0, inner, NODE_BYTES):
            beside = path[start : start + NODE_BYTES]
            node = node_hash(beside, node) if index & 1 else node_hash(node, beside)
            index >>= 1
        for start in range(inner, len(path), NODE_BYTES):
            node = node_hash(path[start : start + NODE_BYTES], node)
        return node


def tree_of(leaves: Sequence[bytes]) -> tuple[bytes, list[InclusionProof]]:
    """Return the root (32 bytes) of a tree over these hashes of leaves, at least one, and the proof of each."""
    # RFC 9162 divides n leaves at the largest power of two below n. Joining neighbors level by level makes the same
    # tree: on each level only the last node can be alone, and it goes up unchanged.
    levels = [list(leaves)]
    while len(levels[-1]) > 1:
        below = levels[-1]
        joined = [node_hash(*below[start : start + 2]) for start in range(0, len(below) - 1, 2)]
        levels.append([*joined, *below[2 * len(joined) :]])
    (root,) = levels.pop()
    paths = [b""]
    # Downwards: the leaves below a node share what is above it.
    for level in reversed(levels):
        paths = [b"".join((*level[place ^ 1 : (place ^ 1) + 1], paths[place >> 1])) for place in range(len(level))]
    return root, [InclusionProof(index, len(leaves), path) for index, path in enumerate(paths)]


def range_root(node: NodeAt, first: int, last: int) -> bytes:
    """Return the root over the leaves from `first` to before `last`, a part that RFC 9162 divides a tree into.

    `first` is a multiple of the largest power of two that is at most their number.
    """
    # Such a part is full subtrees side by side, each smaller than the one before: one for each bit of the number.
    nodes, start = [], first
    while start < last:
        height = (last - start).bit_length() - 1
        nodes.append(node(height, start >> height))
        start += 1 << height
    if not nodes:
        return EMPTY_ROOT
    root = nodes.pop()
    while nodes:
        root = node_hash(nodes.pop(), root)
    return root


def inclusion_path(node: NodeAt, index: int, size: int) -> bytes:
    """Return the hashes beside the way of a leaf to the root, from below: PATH of RFC 9162, section 2.1.3.1."""
    first, last, beside = 0, size, []
    while last - first > 1:
        middle = first + _split(last - first)
        if index < middle:
            beside.append((middle, last))
            last = middle
        else:
            beside.append((first, middle))
            first = middle
    return b"".join(range_root(node, *part) for part in reversed(beside))


def consistency_path(node: NodeAt, older: int, size: int) -> bytes:
    """Return the hashes that show that the first `older` leaves are as they were: PROOF of RFC 9162, section 2.1.4.1.

    There is none, and none is needed, if the older tree was empty or is the whole.
    """
    first, last, beside, known = 0, size, [], True
    while 0 < older < last:
        middle = first + _split(last - first)
        if older <= middle:
            beside.append((middle, last))
            last = middle
        else:
            beside.append((first, middle))
            first, known = middle, False
    if not known:
        # The older root is known to whoever checks, unless it is above this part.
        beside.append((first, last))
    return b"".join(range_root(node, *part) for part in reversed(beside))


def _split(size: int) -> int:
    """Return the largest power of two below `size`, where RFC 9162 divides a tree."""
    return 1 << (size - 1).bit_length() - 1


def is_consistent(older: int, size: int, path: bytes, older_root: bytes, root: bytes) -> bool:
    """Return whether hashes show that a tree of `size` leaves begins with those of an older one: section 2.1.4.2.

    An empty tree is the beginning of every tree, without any hash.
    """
    if not 0 <= older <= size or len(path) % NODE_BYTES:
        return False
    hashes = [path[start : start + NODE_BYTES] for start in range(0, len(path), NODE_BYTES)]
    if older in (0, size):
        return not hashes and older_root == (root if older else EMPTY_ROOT)
    if older & (older - 1) == 0:
        # A full subtree is a node of both trees, so it is where both ways begin.
        hashes.insert(0, older_root)
    return bool(hashes) and _roots(older, size, hashes) == (older_root, root)


def _roots(older: int, size: int, hashes: Sequence[bytes]) -> tuple[bytes, bytes] | None:
    """Return the roots that both ways lead to; None if there are more or fewer hashes than a proof has."""
    way, last = older - 1, size - 1
    while way & 1:
        way, last = way >> 1, last >> 1
    before = after = hashes[0]
    for beside in hashes[1:]:
        if last == 0:
            return None
        if way & 1 or way == last:
            before, after = node_hash(beside, before), node_hash(beside, after)
            while way and not way & 1:
                way, last = way >> 1, last >> 1
        else:
            after = node_hash(after, beside)
        way, last = way >> 1, last >> 1
    return (before, after) if last == 0 else None
