"""Everything that one person sends over a task's rounds: bounded as one report of a randomizer known by its local ε."""

from __future__ import annotations

from dataclasses import dataclass

from hubbub.accountant.pairs.generic import GenericPairs


@dataclass(frozen=True)
class SequencePairs(GenericPairs):
    """Bounded as the worst randomizer of its local ε; not attacked as one, since it is a particular one.

    The stronger clones hold with `part.reports` the steady people, also for a victim who misses rounds, and however
    others' rounds are missed (docs/accounting.md, "One report over many rounds").
    """

    def described(self) -> str:
        """Return it in a few words."""
        return f"one report over all rounds, of local ε {self.mechanism.epsilon_local:.4g}"

    def attack_bound(self, dummies: int) -> None:
        """None is known: what kRR on three values reaches, these reports need not."""
        return None

    @property
    def attacked(self) -> None:
        """No kRR: there is no attack of which this one is known to be the victim."""
        return None
