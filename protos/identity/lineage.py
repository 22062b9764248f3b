"""Orders the identities of each party, from checked successions.

A task names the identities of its three parties, and stays as it is signed. The valid signers of a round follow from
the time: everything that is signed for a round (key records, batch records, its certificate) is signed by the
identities in force when the round's keys may first be made. So a round has one signer of each role, a retired
identity's signatures stay valid, and an identity that is stolen after its end signs nothing valid for later rounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hubbub.protos.identity.documents import canonical, fingerprint
from hubbub.protos.identity.keys import Role
from hubbub.protos.identity.successions import MOST_SUCCESSIONS, WITNESSES, Succession, SuccessionError


@dataclass(frozen=True)
class HeldIdentity:
    """An identity (32 bytes), and the time since which it is its role's, in seconds since 1970; 0 for the first."""

    since: int
    identity: bytes


@dataclass(frozen=True)
class Lineage:
    """The identities of each role, oldest first, and the successions that prove the order."""

    held: Mapping[Role, tuple[HeldIdentity, ...]]
    successions: tuple[Succession, ...]

    @classmethod
    def of(cls, known: Mapping[Role, bytes], successions: Iterable[Succession]) -> Lineage:
        """Return the lineage of these trusted identities (32 bytes by role).

        Raises:
            SuccessionError: if a succession is not signed by its three, or its witness is not the one in force at its
                time; if two follow one identity (a fork); if one leads back to an identity that was in use before (a
                loop), or begins no later than the one before it; or if one follows none of these identities.
        """
        ordered = sorted(
            {canonical(each.body): each for each in successions}.values(), key=lambda each: (each.begins, each.role)
        )
        if len(ordered) > MOST_SUCCESSIONS:
            raise SuccessionError(f"there are {len(ordered)} successions; at most {MOST_SUCCESSIONS} are allowed")
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
        """Return the identity of a role at a moment (seconds since 1970); never an earlier one than `named`."""
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
    """Check that a succession follows the last identity of its role, to which all earlier successions have led."""
    last, seen = held[each.role][-1], {one.identity for found in held.values() for one in found}
    if each.new in seen:
        raise SuccessionError(f"{each.name} is a loop: {fingerprint(each.new)} was in use before; make a new identity")
    if each.old != last.identity:
        if any(one.identity == each.old for one in held[each.role]):
            raise SuccessionError(
                f"{each.name} is a fork: another succession follows the same identity; inform the operator"
            )
        if any(one.new == each.old and one.role is each.role for one in known):
            raise SuccessionError(
                f"{each.name} goes backward: it begins before the identity that it follows; have one signed that "
                "begins later"
            )
        raise SuccessionError(
            f"{each.name} follows an identity that is not trusted here; add the succession before it, or compare the "
            "key that is trusted here"
        )
    if each.begins <= last.since:
        raise SuccessionError(
            f"{each.name} goes backward: it begins when the identity that it follows does; have one signed that begins "
            "later"
        )
    witness = held[WITNESSES[each.role]][-1].identity
    if each.witness != witness:
        raise SuccessionError(
            f"the witness of {each.name} is not the {WITNESSES[each.role].value} {fingerprint(witness)}; have one made "
            "that names it"
        )


def leading(successions: Iterable[Succession], known: Iterable[tuple[Role, bytes]]) -> list[Succession]:
    """Return the successions that lead to or from known identities, by role; others do not concern these.

    A succession whose witness is no party here is left out, too: if a party was replaced without a succession, for
    example because its key was stolen, the successions that it witnessed are not trusted. Nor are successions that are
    reached only through such a one, or whose witness it names. The result is the largest set of successions that
    support each other in this way.
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
    """Return the successions that lead to or from known identities, and all identities that they reach."""
    left, found, parties = list(successions), list[Succession](), set(known)
    while more := [each for each in left if {(each.role, each.old), (each.role, each.new)} & parties]:
        parties |= {(each.role, key) for each in more for key in (each.old, each.new)}
        found += more
        left = [each for each in left if each not in more]
    return found, parties
