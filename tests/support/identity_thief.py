"""Who has one party's identity and makes successions up, by which one of its own would follow."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hubbub.protos.identity.keys import Identity, Role
from hubbub.protos.identity.successions import Succession
from support.attack_deployment import Attacked


@dataclass(frozen=True)
class Usurper:
    """Who stole one party's identity and wants another of its own to follow it, from long ago."""

    running: Attacked
    role: Role
    new: Identity

    def follow(self, old: Identity, new: Identity, begins: int, *signers: Identity) -> Succession:
        """Make a succession with these signatures, witnessed by the operator."""
        made = Succession(self.role, old.public, new.public, self.running.identity(Role.OPERATOR).public, begins)
        for signer in signers:
            made = made.signed_by(signer)
        return made

    @property
    def stolen(self) -> Identity:
        """The identity that it has."""
        return self.running.identity(self.role)

    @property
    def sound(self) -> Succession:
        """With the operator's key besides, which is what is left."""
        return self.follow(self.stolen, self.new, 1, self.stolen, self.new, self.running.identity(Role.OPERATOR))

    def made_up(self) -> dict[str, tuple[list[Succession], str]]:
        """What can be made with one key, and what makes no chain whoever signs it; and what each is refused with."""
        operator, other = self.running.identity(Role.OPERATOR), Identity.generate()
        alone = self.follow(self.stolen, self.new, 1, self.stolen, self.new)
        forged = replace(alone, signatures=(*alone.signatures, (operator.public, os.urandom(64))))
        by_new = replace(
            self.sound, signatures=tuple(each for each in self.sound.signatures if each[0] != self.stolen.public)
        )
        back = self.follow(self.new, self.stolen, 2, self.new, self.stolen, operator)
        fork = self.follow(self.stolen, other, 2, self.stolen, other, operator)
        return {
            "without the witness": ([alone], "is not signed by the operator"),
            "with a forged witness": ([forged], "is forged, or was changed"),
            "a fork": ([self.sound, fork], "is a fork"),
            "a loop": ([self.sound, back], "is a loop"),
            "without the one before": ([by_new], "is not signed by"),
        }


def successions_of(successions: Sequence[Succession]) -> dict[str, bytes]:
    """The files that a party is given."""
    return {f"successions/{number}.json": each.encode() for number, each in enumerate(successions)}
