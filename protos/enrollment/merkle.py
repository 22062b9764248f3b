"""Computes Merkle trees as RFC 9162 defines them (section 2.1): one signature over a root covers every leaf.

Leaves and inner nodes are hashed with prefixes of their own. Otherwise the two hashes below a node would make up a leaf
that nobody signed. A root is worth something with the tree's size alone: with another size it would have other leaves.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from hubbub.protos.errors import SignatureError

NODE_BYTES = 32
"""Length of the hash of a leaf or an inner node (SHA-256)."""


def leaf_hash(leaf: bytes) -> bytes:
    """Return the hash (32 bytes) of a leaf."""
    return hashlib.sha256(b"\x00" + leaf).digest()


def _node_hash(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()


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
                f"there is no leaf {index} in a tree of {size}; give a ticket as `hubbub enroll` wrote it"
            )
        inner = self._inner
        expected = NODE_BYTES * (inner + (index >> inner).bit_count())
        if len(path) != expected:
            raise SignatureError(
                f"the path of leaf {index} in a tree of {size} has {len(path)} bytes, not {expected}; "
                "give a ticket as `hubbub enroll` wrote it"
            )

    @property
    def _inner(self) -> int:
        """How many steps up are below the way of the last leaf: there a node always has a neighbour.

        Beginning at that step, the leaf's way is the last leaf's, at the right edge of the tree. A node there is a
        right child where its bit of the index is 1. Where it is 0, it has no neighbour, and goes up unchanged.
        """
        return (self.index ^ (self.size - 1)).bit_length()

    def root(self, leaf: bytes) -> bytes:
        """Return the root (32 bytes) of the tree in which the leaf with this hash has this place."""
        index, path = self.index, self.path
        # Bit by bit as far as there are neighbours on both sides; above, only left neighbours have hashes in the path.
        inner, node = self._inner * NODE_BYTES, leaf
        for start in range(0, inner, NODE_BYTES):
            beside = path[start : start + NODE_BYTES]
            node = _node_hash(beside, node) if index & 1 else _node_hash(node, beside)
            index >>= 1
        for start in range(inner, len(path), NODE_BYTES):
            node = _node_hash(path[start : start + NODE_BYTES], node)
        return node


def tree_of(leaves: Sequence[bytes]) -> tuple[bytes, list[InclusionProof]]:
    """Return the root (32 bytes) of a tree over these hashes of leaves, at least one, and the proof of each."""
    # RFC 9162 divides n leaves at the largest power of two below n. Joining neighbours level by level makes the same
    # tree: on each level only the last node can be alone, and it goes up unchanged.
    levels = [list(leaves)]
    while len(levels[-1]) > 1:
        below = levels[-1]
        joined = [_node_hash(*below[start : start + 2]) for start in range(0, len(below) - 1, 2)]
        levels.append([*joined, *below[2 * len(joined) :]])
    (root,) = levels.pop()
    paths = [b""]
    # Downwards: the leaves below a node share what is above it.
    for level in reversed(levels):
        paths = [b"".join((*level[place ^ 1 : (place ^ 1) + 1], paths[place >> 1])) for place in range(len(level))]
    return root, [InclusionProof(index, len(leaves), path) for index, path in enumerate(paths)]
