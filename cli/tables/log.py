"""Says what was found in a transparency log or a proof of one, as lines for people and as a document."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hubbub.deploy.files import naming
from hubbub.deploy.transparency_log.fetch import opened_log
from hubbub.protos.errors import HubbubError, UsageError
from hubbub.protos.identity.documents import parse_canonical
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.transparency_log.checkpoint import TrustedLog
from hubbub.protos.transparency_log.entries import LogEntry
from hubbub.protos.transparency_log.policy import LogPolicy
from hubbub.protos.transparency_log.proofs import AnyProof, ConsistencyProof, LoggedProof, SplitViewProof, read_proof
from hubbub.protos.transparency_log.signed_notes import LogError
from hubbub.protos.transparency_log.tiles import LONGEST_LOGGED, entry_path, read_checkpoint
from hubbub.verification.transparency_log import check_log

Found = tuple[list[str], dict[str, Any]]
"""Lines for people, and the same as a document."""


def check_document(path: Path, document: Path | None, trusted: TrustedLog) -> Found:
    """Check the proof in a file, and what it is about.

    Raises:
        HubbubError: naming the file, if it is wrong.
    """
    content = path.read_bytes()
    with naming(path):
        proof = read_proof(content)
    if isinstance(proof, LoggedProof) is (document is None):
        which = (
            "that a document is in a log; name the document" if document is None else "of no document; name no document"
        )
        raise UsageError(f"{path} is a proof {which}")
    with naming(path):
        return _checked(proof, document, trusted)


def _checked(proof: AnyProof, document: Path | None, trusted: TrustedLog) -> Found:
    log = trusted.log.name
    if isinstance(proof, LoggedProof):
        times = proof.check((document or Path()).read_bytes(), trusted)
        line = f"the document is entry {proof.index} of the {proof.signed.size} entries of log {log}"
        found = {"verified": True, "index": proof.index, "size": proof.signed.size}
    elif isinstance(proof, ConsistencyProof):
        times = proof.check(trusted)
        line = f"the {proof.newer.size} entries of log {log} begin with the earlier {proof.older.size}"
        found = {"verified": True, "before": proof.older.size, "size": proof.newer.size}
    else:
        raise LogError(_views(proof, trusted))
    return [line, *_signers(times)], {**found, "log": log, "witnesses": dict(times)}


def _views(proof: SplitViewProof, trusted: TrustedLog) -> str:
    """Return what a file of two views shows; its checkpoints are checked to be the log's."""
    proof.check(trusted)
    sizes = f"its checkpoints of {proof.older.size} and {proof.newer.size} entries"
    if proof.is_proven:
        return f"log {trusted.log.name} has shown two views: {sizes} contradict each other, and it has signed both"
    return (
        f"log {trusted.log.name} has signed {sizes}, and nothing here proves that they contradict each other; ask "
        "whoever keeps the log for a proof with `hubbub log prove --since`"
    )


def lacking_witnesses(proof: AnyProof, document: bytes) -> str | None:
    """Return a warning if witnesses have still to sign what was proven: whoever asks for them refuses such a proof.

    A task, or a certificate of it, states which ones are asked for, and how many. For anything else nobody here knows;
    then the warning is of a checkpoint that the log alone has signed.
    """
    again = "have the log witnessed, add the signatures with `hubbub log add --witness`, and prove it again"
    policy = _policy_in(document) if isinstance(proof, LoggedProof) else None
    if policy is not None and isinstance(proof, LoggedProof):
        try:
            policy.check(document, proof)
        except LogError as error:
            return f"warning: the task asks for another proof: {error}; {again}"
        return None
    newest = proof.signed if isinstance(proof, LoggedProof) else proof.newer
    if len(newest.signatures) > 1:
        return None
    return f"warning: no witness has signed this checkpoint, and whoever asks for one refuses the proof; {again}"


def _policy_in(document: bytes) -> LogPolicy | None:
    """Return what a task, or the task in a certificate, demands of a log; None if it is neither, or demands nothing."""
    try:
        value = parse_canonical(document)
        return SignedTask.from_json(value if "task" in value else value["body"]["task"]).task.log
    except (HubbubError, KeyError, TypeError):
        return None


def check_whole(place: str, authority: Path | None, trusted: TrustedLog, now: Callable[[int], object]) -> Found:
    """Check a whole log.

    Raises:
        LogError: naming the first file that is wrong, or what its entries say against each other.
    """
    with opened_log(place, authority) as files:
        found = check_log(files, trusted, now)
    if found.contradictions:
        raise LogError(
            f"the log is as it was signed, but {'; '.join(found.contradictions)}: ask the analyzer's party which one "
            "counts, and show both"
        )
    name, size = trusted.log.name, found.signed.size
    line = f"all {size} entries of log {name} are as its checkpoint has them"
    return (
        [line, *_signers(found.witnessed)],
        {"verified": True, "log": name, "size": size, "witnesses": dict(found.witnessed)},
    )


def _signers(times: Mapping[str, int]) -> list[str]:
    if not times:
        return ["no witness was asked for: the log may show others another view"]
    return [f"witness {name} signed at {_time(each)}" for name, each in times.items()]


def _time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def show_log(place: str, authority: Path | None, last: int) -> Found:
    """Return a log's checkpoint and its newest entries; neither is checked.

    Raises:
        HubbubError: if a file of it is missing.
    """
    with opened_log(place, authority) as files:
        signed = read_checkpoint(files)
        first = max(0, signed.size - last)
        rows = [
            {"index": index, "what": _words(files(entry_path(index), LONGEST_LOGGED))}
            for index in range(first, signed.size)
        ]
    checkpoint = signed.checkpoint
    # With the key's id: one name may have two keys. Who has which key is not known here, so nobody is counted.
    signers = [f"{each.name}+{each.key_id.hex()}" for each in signed.signatures]
    lines = [
        f"log {checkpoint.origin}: {signed.size} entries, root {checkpoint.root.hex()}",
        f"signatures, not checked, of {', '.join(signers)}",
        *(f"entry {row['index']}: {row['what']}" for row in rows),
    ]
    found = {"log": checkpoint.origin, "size": signed.size, "root": checkpoint.root.hex(), "signers": signers}
    return lines, {**found, "entries": rows}


def _words(document: bytes) -> str:
    try:
        return LogEntry.read(document).words
    except HubbubError as error:
        return f"cannot be read: {error}"
