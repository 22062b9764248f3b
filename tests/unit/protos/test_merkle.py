"""A tree is RFC 9162's, and a proof leads to its root from one leaf at one place alone."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import pytest

from hubbub.protos.errors import SignatureError
from hubbub.protos.merkle import (
    EMPTY_ROOT,
    NODE_BYTES,
    InclusionProof,
    consistency_path,
    inclusion_path,
    is_consistent,
    leaf_hash,
    node_hash,
    range_root,
    tree_of,
)

LONGEST = 300
"""Every size up to it is tried: more than a list of tickets has."""

LEAVES = [number.to_bytes(2, "big") for number in range(LONGEST)]
HASHES = [leaf_hash(leaf) for leaf in LEAVES]

SMALL = range(1, 34)
"""Sizes at which each place is tried against each other."""

CT_LEAVES = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]
CT_ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
"""Roots of the first leaves, as the tests of Certificate Transparency's logs have them: RFC 6962 has the same tree."""


def sha256(*parts: bytes) -> bytes:
    return hashlib.sha256(b"".join(parts)).digest()


def split(size: int) -> int:
    """The largest power of two below `size`."""
    return 1 << (size - 1).bit_length() - 1


@cache
def root_by_definition(first: int, last: int) -> bytes:
    """MTH of RFC 9162, section 2.1.1, over `LEAVES[first:last]`."""
    if last - first == 1:
        return sha256(b"\x00", LEAVES[first])
    middle = first + split(last - first)
    return sha256(b"\x01", root_by_definition(first, middle), root_by_definition(middle, last))


def path_by_definition(index: int, first: int, last: int) -> list[bytes]:
    """PATH of RFC 9162, section 2.1.3.1, over `LEAVES[first:last]`."""
    if last - first == 1:
        return []
    middle = first + split(last - first)
    if index < middle - first:
        return [*path_by_definition(index, first, middle), root_by_definition(middle, last)]
    return [*path_by_definition(index - (middle - first), middle, last), root_by_definition(first, middle)]


def root_by_verification(leaf: bytes, index: int, size: int, path: Sequence[bytes]) -> bytes | None:
    """The root that RFC 9162 compares at the end of section 2.1.3.2; None if the verification fails before."""
    if index >= size:
        return None
    way, last, found = index, size - 1, leaf
    for beside in path:
        if last == 0:
            return None
        if way & 1 or way == last:
            found = sha256(b"\x01", beside, found)
            while not way & 1 and way != 0:
                way, last = way >> 1, last >> 1
        else:
            found = sha256(b"\x01", found, beside)
        way, last = way >> 1, last >> 1
    return found if last == 0 else None


def nodes(path: bytes) -> list[bytes]:
    return [path[start : start + NODE_BYTES] for start in range(0, len(path), NODE_BYTES)]


def leads(leaf: bytes, index: int, size: int, path: bytes, root: bytes) -> bool:
    """Whether there is such a proof, and it leads from the leaf to the root."""
    try:
        return InclusionProof(index, size, path).root(leaf) == root
    except SignatureError:
        return False


@pytest.mark.parametrize("size", range(1, len(CT_ROOTS) + 1))
def test_roots_are_those_that_logs_of_certificates_agree_on(size: int) -> None:
    root, _proofs = tree_of([leaf_hash(bytes.fromhex(leaf)) for leaf in CT_LEAVES[:size]])
    assert root.hex() == CT_ROOTS[size - 1]


@pytest.mark.slow
def test_every_leaf_of_every_size_has_the_rfc_s_root_and_path() -> None:
    for size in range(1, LONGEST + 1):
        root, proofs = tree_of(HASHES[:size])
        assert root == root_by_definition(0, size)
        for index, proof in enumerate(proofs):
            assert nodes(proof.path) == path_by_definition(index, 0, size)
            assert (proof.index, proof.size, proof.root(HASHES[index])) == (index, size, root)


def test_whatever_path_is_given_it_leads_where_the_rfc_s_verification_leads() -> None:
    for size in SMALL:
        for index in range(-1, size + 2):
            for length in range(8):
                path = os.urandom(length * NODE_BYTES)
                expected = None if index < 0 else root_by_verification(HASHES[0], index, size, nodes(path))
                try:
                    found = InclusionProof(index, size, path).root(HASHES[0])
                except SignatureError:
                    found = None
                assert found == expected, (size, index, length)


def test_a_proof_is_for_no_other_place_and_no_other_leaf() -> None:
    for size in SMALL:
        root, proofs = tree_of(HASHES[:size])
        for index, proof in enumerate(proofs):
            for other in range(size):
                assert leads(HASHES[index], other, size, proof.path, root) is (other == index)
                assert leads(HASHES[other], index, size, proof.path, root) is (other == index)


def test_a_changed_path_leads_elsewhere() -> None:
    for size in SMALL:
        root, proofs = tree_of(HASHES[:size])
        for index, proof in enumerate(proofs):
            for place in range(index % NODE_BYTES, len(proof.path), NODE_BYTES):
                changed = bytearray(proof.path)
                changed[place] ^= 1 << place % 8
                assert replace(proof, path=bytes(changed)).root(HASHES[index]) != root


def test_a_path_of_another_length_is_refused() -> None:
    for size in SMALL:
        _root, proofs = tree_of(HASHES[:size])
        for proof in proofs:
            path = proof.path
            for wrong in (path + HASHES[0], path + b"\0", path[:-NODE_BYTES], path[NODE_BYTES:], path[:-1]):
                if wrong != path:
                    with pytest.raises(SignatureError, match=f"has {len(wrong)} bytes, not {len(path)}"):
                        replace(proof, path=wrong)


@pytest.mark.parametrize(("index", "size"), [(-1, 1), (1, 1), (5, 5), (0, 0), (0, -1), (-1, 0)])
def test_a_place_outside_of_the_tree_is_refused(index: int, size: int) -> None:
    with pytest.raises(SignatureError, match=rf"there is no leaf {index} in a tree of {size}"):
        InclusionProof(index, size)


def test_an_inner_node_is_no_leaf() -> None:
    """Without prefixes the two hashes below a node would be a leaf of a smaller tree, by the rest of the path."""
    for size in SMALL[1:]:
        root, proofs = tree_of(HASHES[:size])
        for index in range(0, size - 1, 2):
            inner = HASHES[index] + HASHES[index + 1]
            assert sha256(b"\x01", inner) != leaf_hash(inner)
            rest = proofs[index].path[NODE_BYTES:]
            places = [(place, claimed) for claimed in range(1, size + 1) for place in range(claimed)]
            assert not any(leads(leaf_hash(inner), *place, rest, root) for place in places)


def test_a_leaf_is_not_there_twice_because_its_tree_is_not_full() -> None:
    """A tree that fills up by repeating its last leaf has one root for both lists."""
    for size in SMALL:
        root, _proofs = tree_of(HASHES[:size])
        repeated, more = tree_of([*HASHES[:size], HASHES[size - 1]])
        assert repeated != root
        for proof in more[-2:]:
            assert not leads(HASHES[size - 1], proof.index, proof.size, proof.path, root)


def test_a_root_holds_with_its_size_alone() -> None:
    """The same root is that of another size with another leaf beside: so whoever signs a root signs the size, too."""
    root, proofs = tree_of(HASHES[:2])
    assert leads(HASHES[1], 1, 2, proofs[1].path, root)
    assert leads(HASHES[1], 2, 3, proofs[1].path, root)


def test_a_path_is_not_printed() -> None:
    _root, proofs = tree_of(HASHES[:2])
    assert repr(proofs[0]) == "InclusionProof(index=0, size=2)"


# Consistency: a tree begins with an earlier one


@cache
def full(height: int, number: int) -> bytes:
    """The root of a full subtree over `LEAVES`."""
    return HASHES[number] if height == 0 else node_hash(full(height - 1, 2 * number), full(height - 1, 2 * number + 1))


def proof_by_definition(older: int, first: int, last: int, known: bool = True) -> list[bytes]:
    """SUBPROOF of RFC 9162, section 2.1.4.1, over `LEAVES[first:last]`."""
    if older == last - first:
        return [] if known else [root_by_definition(first, last)]
    middle = first + split(last - first)
    if older <= middle - first:
        return [*proof_by_definition(older, first, middle, known), root_by_definition(middle, last)]
    return [
        *proof_by_definition(older - (middle - first), middle, last, False),
        root_by_definition(first, middle),
    ]


BRUTE = 64
"""Every pair of sizes up to it is tried."""

PAIRS = [(older, size) for size in range(1, BRUTE + 1) for older in range(1, size + 1)]


def test_roots_and_paths_from_full_subtrees_are_the_rfc_s() -> None:
    assert range_root(full, 0, 0) == EMPTY_ROOT == sha256()
    for size in range(1, BRUTE + 1):
        assert range_root(full, 0, size) == root_by_definition(0, size)
        for index in range(size):
            assert nodes(inclusion_path(full, index, size)) == path_by_definition(index, 0, size)


def test_every_pair_of_sizes_has_the_rfc_s_proof_and_it_holds() -> None:
    for older, size in PAIRS:
        path = consistency_path(full, older, size)
        assert nodes(path) == proof_by_definition(older, 0, size), (older, size)
        assert is_consistent(older, size, path, root_by_definition(0, older), root_by_definition(0, size))


@pytest.mark.parametrize(
    ("older", "size", "path"),
    [
        (1, 8, [
            "lqKW0iTyhcZ77pPDD4owkVfw2qNdxbh+QQt4YwoJz8c=",
            "Xwg/ChozygdqlSeYMlgNs+DvRYS9/x9UyKNg9Q3jAx4=",
            "a0eq8p7jwq+a+Im8H7klTavTEXfxYjLdaqsDXKOb9uQ=",
        ]),
        (6, 8, [
            "DrxdNDf74tsVi58Sah0RjjCBgQMdCpSfje3t68VY72o=",
            "yoVOoSjtBQtBs1/8G4e46yveRh6eO1WW7Oa51ZdaCuA=",
            "037kGJdt2VdTwcc4Yrk5j6Kiz5tP8P3+izDNlSCWFLc=",
        ]),
        (2, 5, [
            "Xwg/ChozygdqlSeYMlgNs+DvRYS9/x9UyKNg9Q3jAx4=",
            "vBoGQ7EuTS18d5GPROD095qDi2z57FtcKD4fTYhZnms=",
        ]),
        (6, 7, [
            "DrxdNDf74tsVi58Sah0RjjCBgQMdCpSfje3t68VY72o=",
            "sIaT7C5yFZcTBkHoIR5+7cy0wmQTlj7ubB4u0W/7Gl8=",
            "037kGJdt2VdTwcc4Yrk5j6Kiz5tP8P3+izDNlSCWFLc=",
        ]),
    ],
)  # fmt: skip
def test_proofs_are_those_of_other_logs(older: int, size: int, path: list[str]) -> None:
    """From transparency-dev/merkle (testdata/consistency/1 to 4, happy path), over `CT_LEAVES`."""
    leaves = [leaf_hash(bytes.fromhex(leaf)) for leaf in CT_LEAVES]

    def node(height: int, number: int) -> bytes:
        return tree_of(leaves[number << height : (number + 1) << height])[0]

    known = b"".join(base64.b64decode(line) for line in path)
    assert consistency_path(node, older, size) == known
    assert is_consistent(older, size, known, bytes.fromhex(CT_ROOTS[older - 1]), bytes.fromhex(CT_ROOTS[size - 1]))


def test_no_other_size_root_or_path_is_consistent() -> None:
    for older, size in PAIRS[::7]:
        path, first, last = consistency_path(full, older, size), *roots(older, size)
        for place in range(size % 8, len(path), 8):
            changed = bytearray(path)
            changed[place] ^= 1 << place % 8
            assert not is_consistent(older, size, bytes(changed), first, last), (older, size, place)
        assert not is_consistent(older, size, path, bytes(NODE_BYTES), last)
        assert not is_consistent(older, size, path, first, bytes(NODE_BYTES))
        for other in range(1, size + 2):
            if other != older:
                assert not is_consistent(other, size, path, first, last), (older, other, size)
        for wrong in (path + path[:NODE_BYTES], path + bytes(NODE_BYTES), path[NODE_BYTES:], path[:-1], path + b"x"):
            if wrong != path:
                assert not is_consistent(older, size, wrong, first, last)


def roots(older: int, size: int) -> tuple[bytes, bytes]:
    return root_by_definition(0, older), root_by_definition(0, size)


def test_a_tree_without_leaves_is_the_beginning_of_every_tree_and_of_no_other_root() -> None:
    assert consistency_path(full, 0, 5) == b""
    assert is_consistent(0, 5, b"", EMPTY_ROOT, root_by_definition(0, 5))
    assert not is_consistent(0, 5, b"", HASHES[0], root_by_definition(0, 5))
    assert not is_consistent(0, 5, HASHES[0], EMPTY_ROOT, root_by_definition(0, 5))
    assert not is_consistent(6, 5, b"", EMPTY_ROOT, root_by_definition(0, 5))
    assert not is_consistent(-1, 5, b"", EMPTY_ROOT, root_by_definition(0, 5))


def test_a_log_that_changed_a_leaf_has_no_proof() -> None:
    """Whatever path is given: here, each that the changed tree has."""
    for older, size in [(1, 2), (3, 7), (4, 8), (5, 9), (8, 13)]:
        for changed in range(older):
            leaves = [*HASHES[:changed], HASHES[100], *HASHES[changed + 1 : size]]

            def node(height: int, number: int, leaves: list[bytes] = leaves) -> bytes:
                return tree_of(leaves[number << height : (number + 1) << height])[0]

            path, root = consistency_path(node, older, size), range_root(node, 0, size)
            assert is_consistent(older, size, path, range_root(node, 0, older), root)
            assert not is_consistent(older, size, path, root_by_definition(0, older), root)
