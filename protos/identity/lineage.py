"""The identities of each party in the order in which they followed each other, from checked successions.

A task names the identities of its three parties, and stays as it is signed. Whose signature counts for a round of it
follows from the time: everything that is signed for a round (key records, batch records, its certificate) is signed by
the identities that are in force when the round's keys may first be made. So a round has one signer of each role, a
retired identity is still right for what it signed, and one that was stolen later makes nothing for later rounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hubbub.protos.identity.documents import canonical, fingerprint
from hubbub.protos.identity.keys import Role
from hubbub.protos.identity.successions import MOST_SUCCESSIONS, WITNESSES, Succession, SuccessionError


@dataclass(frozen=True)
class HeldIdentity:
    """An identity (32 bytes) and since when it is its role's, in seconds since 1970; 0 for the first."""

    since: int
    identity: bytes


@dataclass(frozen=True)
class Lineage:
    """The identities of each role, oldest first, and the successions that say so."""

    held: Mapping[Role, tuple[HeldIdentity, ...]]
    successions: tuple[Succession, ...]

    @classmethod
    def of(cls, known: Mapping[Role, bytes], successions: Iterable[Succession]) -> Lineage:
        """Return the lineage that those identities (32 bytes by role), which are trusted, are part of.

        Raises:
            SuccessionError: if a succession is not signed by its three, or is of another witness than its time's;
                where two follow one identity (a fork), one leads back to an identity that was in use before (a loop),
                or begins no later than the one before it; and where one follows none of these identities.
        """
        ordered = sorted(
            {canonical(each.body): each for each in successions}.values(), key=lambda each: (each.begins, each.role)
        )
        if len(ordered) > MOST_SUCCESSIONS:
            raise SuccessionError(f"{len(ordered)} successions; there are at most {MOST_SUCCESSIONS}")
        held = {role: [HeldIdentity(0, _first(role, identity, ordered))] for role, identity in known.items()}
        for each in ordered:
            each.check()
            _check_follows(each, held, ordered)
            held[each.role].append(HeldIdentity(each.begins, each.new))
        return cls({role: tuple(found) for role, found in held.items()}, tuple(ordered))

    def holds(self, role: Role, identity: bytes) -> bool:
        """Whether an identity is, was or will be the role's."""
        return any(each.identity == identity for each in self.held[role])

    def at(self, role: Role, named: bytes, moment: float) -> bytes:
        """Return the identity of a role at a moment (seconds since 1970); never one before the one that is named."""
        identities = [each.identity for each in self.held[role]]
        since = identities.index(named)
        later = [each.identity for each in self.held[role][since + 1 :] if each.since <= moment]
        return later[-1] if later else named

    def identities(self, role: Role) -> tuple[bytes, ...]:
        """Return all identities of a role, oldest first."""
        return tuple(each.identity for each in self.held[role])


def _first(role: Role, identity: bytes, successions: Sequence[Succession]) -> bytes:
    """Return the earliest identity that leads to this one."""
    before = {each.new: each.old for each in successions if each.role is role}
    seen = {identity}
    while identity in before and before[identity] not in seen:
        identity = before[identity]
        seen.add(identity)
    return identity


def _check_follows(each: Succession, held: Mapping[Role, Sequence[HeldIdentity]], known: Sequence[Succession]) -> None:
    """Return only if a succession follows the last identity of its role, which all that begin earlier have led to."""
    last, seen = held[each.role][-1], {one.identity for found in held.values() for one in found}
    if each.new in seen:
        raise SuccessionError(f"{each.name} is a loop: {fingerprint(each.new)} was in use before; make a new identity")
    if each.old != last.identity:
        if any(one.identity == each.old for one in held[each.role]):
            raise SuccessionError(f"{each.name} is a fork: another one follows that identity; tell the operator")
        if any(one.new == each.old and one.role is each.role for one in known):
            raise SuccessionError(f"{each.name} goes backward: it begins before the identity that it follows")
        raise SuccessionError(f"{each.name} follows no identity that is trusted here")
    if each.begins <= last.since:
        raise SuccessionError(f"{each.name} goes backward: it begins when the identity that it follows does")
    witness = held[WITNESSES[each.role]][-1].identity
    if each.witness != witness:
        raise SuccessionError(
            f"{each.name} has another {WITNESSES[each.role].value} as its witness than {fingerprint(witness)}"
        )


def leading(successions: Iterable[Succession], known: Iterable[tuple[Role, bytes]]) -> list[Succession]:
    """Return those successions that lead to or from identities that are known, by role; others say nothing of them.

    One that somebody witnessed who is no party here is left out, too: after a party was replaced without a succession,
    as one whose key was stolen is, what it witnessed before is not believed. Nor is what is reached by that one alone,
    or witnessed by whom it names: of all sets of successions that bear themselves so, this is the largest.
    """
    left, ours = list(successions), frozenset(known)
    while True:
        found, parties = _reached(left, ours)
        left = [each for each in found if (WITNESSES[each.role], each.witness) in parties]
        if len(left) == len(found):
            return found


def _reached(
    successions: Iterable[Succession], known: frozenset[tuple[Role, bytes]]
) -> tuple[list[Succession], set[tuple[Role, bytes]]]:
    """Return the successions that lead to or from identities that are known, and all identities that these reach."""
    left, found, parties = list(successions), list[Succession](), set(known)
    while more := [each for each in left if {(each.role, each.old), (each.role, each.new)} & parties]:
        parties |= {(each.role, key) for each in more for key in (each.old, each.new)}
        found += more
        left = [each for each in left if each not in more]
    return found, parties
