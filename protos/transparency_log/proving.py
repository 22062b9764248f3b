"""Makes proofs from a log's files: that a document is in it, and that it only grew.

The checkpoint of a proof has whatever signatures it had when it was read. Nobody needs to believe who makes a proof.
"""

from __future__ import annotations

from collections.abc import Sequence

from hubbub.protos.merkle import InclusionProof, is_consistent, leaf_hash
from hubbub.protos.transparency_log.checkpoint import SignedCheckpoint
from hubbub.protos.transparency_log.proofs import ConsistencyProof, LoggedProof
from hubbub.protos.transparency_log.signed_notes import LogError
from hubbub.protos.transparency_log.tiles import LogFiles, TileTree, check_tiles, read_checkpoint, tree_of_log


def find_leaves(tree: TileTree, leaves: Sequence[bytes]) -> dict[bytes, int]:
    """Return the index of each of these hashes of leaves that is in a log; all of its leaves are read."""
    wanted, found = set(leaves), dict[bytes, int]()
    for index, leaf in enumerate(tree.leaf_hashes()):
        if leaf in wanted:
            found.setdefault(leaf, index)
    return found


def prove_logged(files: LogFiles, document: bytes) -> LoggedProof:
    """Prove that a document is in a log.

    Raises:
        LogError: if it is not, or if the log's files do not give its checkpoint.
    """
    signed = read_checkpoint(files)
    tree = tree_of_log(files, signed)
    leaf = leaf_hash(document)
    index = find_leaves(tree, [leaf]).get(leaf)
    if index is None:
        # A tile that was changed has other hashes: then it may well be there.
        check_tiles(tree)
        raise LogError(
            f"it is not among the {signed.size} entries of log {signed.checkpoint.origin}; add it with "
            "`hubbub log add`, or give the very file that was added"
        )
    path = tree.inclusion(index)
    if InclusionProof(index, signed.size, path).root(leaf) != signed.checkpoint.root:
        raise _changed(signed)
    return LoggedProof(index, path, signed)


def _changed(signed: SignedCheckpoint) -> LogError:
    # The root follows from the hashes at the tree's edge. Below them, files may have been changed.
    return LogError(
        f"the log's tiles do not give the hashes above them, which its checkpoint of {signed.size} entries has: they "
        "were changed; find the file with `hubbub log check`, and restore it from the newest copy"
    )


def prove_consistency(files: LogFiles, older: bytes) -> ConsistencyProof:
    """Prove that a log only grew since an older checkpoint of it, given as a file.

    Raises:
        LogError: if that is no checkpoint of this log, or if the log does not begin as it says.
    """
    before, signed = SignedCheckpoint.decode(older), read_checkpoint(files)
    past, newest = before.checkpoint, signed.checkpoint
    if past.origin != newest.origin:
        raise LogError(f"it is a checkpoint of log {past.origin}, not of {newest.origin}; give one of this log")
    if past.size > newest.size:
        raise LogError(
            f"it is of {past.size} entries, and the log has {newest.size}: the log is an older copy, or another view; "
            "restore the newest copy of the log"
        )
    tree = tree_of_log(files, signed)
    path, root = tree.consistency(past.size), tree.root(past.size)
    if not is_consistent(past.size, newest.size, path, root, newest.root):
        raise _changed(signed)
    if past.root != root:
        raise LogError(
            f"the log's {newest.size} entries do not begin with the {past.size} of this checkpoint, so nothing proves "
            "that it only grew; if the log has signed it, the log has shown two views"
        )
    return ConsistencyProof(before, signed, path)
