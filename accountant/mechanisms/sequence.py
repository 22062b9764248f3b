"""Defines a randomizer of all that one person sends over a task's rounds: drawn once, one piece sent each round."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

from hubbub.accountant.errors import AccountingError, shown
from hubbub.accountant.mechanisms.exact import checked_epsilon_local, grown_exp
from hubbub.accountant.mechanisms.exact_values import Fits, check_content, is_count, is_text, read_real


@dataclass(frozen=True)
class Sequence:
    """One person's pieces in all rounds are one `epsilon_local`-LDP report; one round of it is `epsilon_round`-LDP.

    For every input its density is between c and c·e^epsilon_local, relative to a law that is independent of the input
    and from round to round. `steady` is how many honest people, of the same level if there are levels, take part in
    every round in which a given person does. They alone hide that person, since a person who misses a round sends
    another sequence. `steady` cannot be measured, as nobody can link the rounds' reports. A task states it, and the
    certificate is valid if the statement is true (accounting-signs.md, "Who counts as n"). Levels are drawn, so a
    level has fewer people with a chance of at most `LEVEL_SHARE` of δ, which is part of the certified δ
    (`rounds.left_out`). `alone` is one round without the others, which all of its reports hide; it is never written.
    """

    kind: ClassVar[str] = "sequence"
    members: ClassVar[Mapping[str, Fits]] = {
        "epsilon_local_hex": is_text,
        "epsilon_round_hex": is_text,
        "steady": is_count,
    }
    counts_dummies: ClassVar[bool] = False

    epsilon_local: float
    epsilon_round: float
    steady: int
    alone: bool = False

    def __post_init__(self) -> None:
        for name in ("epsilon_local", "epsilon_round"):
            object.__setattr__(self, name, checked_epsilon_local(getattr(self, name)))
        if self.epsilon_round > self.epsilon_local:
            raise AccountingError(
                f"epsilon_round is {self.epsilon_round:g}; give at most epsilon_local, which is {self.epsilon_local:g}"
            )
        if type(self.steady) is not int or self.steady < 1:
            raise AccountingError(f"steady is {shown(self.steady)}; give a whole number of people from 1")
        if type(self.alone) is not bool:
            raise AccountingError(f"alone is {shown(self.alone)}; give true or false")

    def content(self) -> dict[str, Any]:
        """Return its one form as JSON values."""
        local, one = self.epsilon_local.hex(), self.epsilon_round.hex()
        return {"mechanism": self.kind, "epsilon_local_hex": local, "epsilon_round_hex": one, "steady": self.steady}

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> "Sequence":
        """Read the output of `content`; raises AccountingError for anything else."""
        check_content(cls.kind, cls.members, content)
        local, one = (read_real(name, content[name]) for name in ("epsilon_local_hex", "epsilon_round_hex"))
        return cls(local, one, content["steady"])

    @property
    def likelihood_ratio(self) -> Fraction:
        """e^epsilon_local, rounded up beyond 50 digits."""
        return grown_exp(self.epsilon_local)

    @property
    def one_round(self) -> "Sequence":
        """Return the law of one round alone: a sequence of one round."""
        return replace(self, epsilon_local=self.epsilon_round, alone=True)
