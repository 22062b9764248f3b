"""Verifies certificates of a task together: a succession that one of them contains counts for all of them.

A round's certificate contains the successions that its analyzer knew. An earlier one lacks the later successions. So
who pinned the new keys alone would have to refuse the rounds before, and a longitudinal round follows from them. The
other way round, a certificate whose signers were replaced by a succession does not hold because it hides that one.

Successions are taken from valid certificates of the pinned parties alone. Each has the signatures of its three.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from hubbub.protos.errors import SignatureError
from hubbub.protos.identity.documents import canonical, parse_named
from hubbub.protos.identity.formats import CERTIFICATE
from hubbub.protos.identity.successions import Succession
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.task import Task, connected, followed, signers
from hubbub.verification.certificate import NotAsPinned, VerificationError


class WithSuccessions(Protocol):
    """What was found of a valid certificate."""

    @property
    def successions(self) -> tuple[Succession, ...]:
        """The successions of its task's parties."""


C = TypeVar("C", bound=WithSuccessions)


def verify_together(
    certificates: Sequence[bytes],
    check: Callable[[bytes, tuple[Succession, ...]], C],
    beside: Callable[[], Sequence[C]] = tuple,
) -> list[C | VerificationError]:
    """Return what `check` finds of each certificate, or why it is not valid.

    Args:
        certificates: certificates, of several tasks too.
        check: verifies one with further successions; it raises a VerificationError.
        beside: called if a certificate is not as pinned: returns further valid ones that may have successions.
    """
    found = [_tried(check, each, ()) for each in certificates]
    valid = [each for each in found if not isinstance(each, VerificationError)]
    if any(isinstance(each, NotAsPinned) for each in found):
        valid += beside()
    known = {canonical(each.body): each for one in valid for each in one.successions}
    if not known:
        return found
    return [
        _again(check, certificate, each, list(known.values()))
        for certificate, each in zip(certificates, found, strict=True)
    ]


def _again(
    check: Callable[[bytes, tuple[Succession, ...]], C],
    certificate: bytes,
    found: C | VerificationError,
    known: Sequence[Succession],
) -> C | VerificationError:
    """Return what is found of a certificate with the successions of the others, if these can change it."""
    if isinstance(found, VerificationError) and not isinstance(found, NotAsPinned):
        return found
    try:
        body = parse_named(certificate, CERTIFICATE, "body")["body"]
        task, number = SignedTask.from_json(body["task"]).task, body["round"]
        ours = tuple(connected(task, known))
    except (SignatureError, KeyError, TypeError) as error:
        return found if isinstance(found, VerificationError) else VerificationError(str(error))
    if isinstance(found, NotAsPinned):
        again = _tried(check, certificate, ours) if ours else found
        # With them it may still be of strangers, or of a party whose succession nobody gave.
        return found if isinstance(again, NotAsPinned) else again
    return _tried(check, certificate, ours) if _changes(task, number, found.successions, ours) else found


def _changes(task: Task, number: int, own: Sequence[Succession], ours: Sequence[Succession]) -> bool:
    """Return whether the successions of others make other identities sign this round, or contradict its own."""
    if {canonical(each.body) for each in ours} <= {canonical(each.body) for each in own}:
        return False
    alone = followed(replace(task, lineage=None), own)
    try:
        return signers(followed(replace(task, lineage=None), [*own, *ours]), number) != signers(alone, number)
    except SignatureError:
        return True


def _tried(
    check: Callable[[bytes, tuple[Succession, ...]], C], certificate: bytes, successions: tuple[Succession, ...]
) -> C | VerificationError:
    try:
        return check(certificate, successions)
    except VerificationError as error:
        return error
