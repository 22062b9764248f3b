"""A randomizer of everything that one person sends over all rounds of a task, drawn once and sent a piece a round."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

from hubbub.accountant.errors import AccountingError, shown
from hubbub.accountant.mechanisms.exact import checked_epsilon_local, grown_exp
from hubbub.accountant.mechanisms.exact_values import Fits, check_content, is_count, is_text, read_real


@dataclass(frozen=True)
class Sequence:
    """What one person sends in all rounds together is one `epsilon_local`-LDP report; one round of it `epsilon_round`.

    Its density, relative to what depends on nothing and is independent from round to round, is between c and
    c·e^epsilon_local for every input. `steady` is how many honest people, of the same level where there are levels,
    take part in every round in which a given person does: they alone hide that person, since who misses a round sends
    another sequence. It cannot be measured, as nobody can link the rounds' reports; a task states it, and what is
    certified holds where it does (accounting-signs.md, "Who counts as n"). Levels are drawn, so a level has
    fewer by a chance of at most `LEVEL_SHARE` of δ, which is part of the δ that is certified (`rounds.left_out`).
    `alone` is one round by itself, which all who came hide; it is never written.
    """

    kind: ClassVar[str] = "sequence"
    members: ClassVar[Mapping[str, Fits]] = {
        "epsilon_local_hex": is_text,
        "epsilon_round_hex": is_text,
        "steady": is_count,
    }
    counts_dummies: ClassVar[bool] = False
    mixed: ClassVar[bool] = False

    epsilon_local: float
    epsilon_round: float
    steady: int
    alone: bool = False

    def __post_init__(self) -> None:
        for name in ("epsilon_local", "epsilon_round"):
            object.__setattr__(self, name, checked_epsilon_local(getattr(self, name)))
        if self.epsilon_round > self.epsilon_local:
            raise AccountingError(
                f"epsilon_round is {self.epsilon_round:g}, must be at most epsilon_local = {self.epsilon_local:g}"
            )
        if type(self.steady) is not int or self.steady < 1:
            raise AccountingError(f"steady is {shown(self.steady)}, must be a whole number from 1: people")
        if type(self.alone) is not bool:
            raise AccountingError(f"alone is {shown(self.alone)}, must be true or false")

    def content(self) -> dict[str, Any]:
        """Return its one form as JSON values."""
        local, one = self.epsilon_local.hex(), self.epsilon_round.hex()
        return {"mechanism": self.kind, "epsilon_local_hex": local, "epsilon_round_hex": one, "steady": self.steady}

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> "Sequence":
        """Read what `content` wrote; raises AccountingError for anything else."""
        check_content(cls.kind, cls.members, content)
        local, one = (read_real(name, content[name]) for name in ("epsilon_local_hex", "epsilon_round_hex"))
        return cls(local, one, content["steady"])

    @property
    def likelihood_ratio(self) -> Fraction:
        """e^epsilon_local, rounded up beyond 50 digits."""
        return grown_exp(self.epsilon_local)

    @property
    def one_round(self) -> "Sequence":
        """What one round alone shows: a sequence that ends with it."""
        return replace(self, epsilon_local=self.epsilon_round, alone=True)
