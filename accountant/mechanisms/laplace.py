"""Defines Laplace noise on an answer from an interval."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar

from hubbub.accountant.errors import AccountingError
from hubbub.accountant.mechanisms.exact import PRECISE, checked_epsilon_local, exact_decimal, grown_exp
from hubbub.accountant.mechanisms.exact_values import Fits, check_content, is_text, read_real


@dataclass(frozen=True)
class Laplace:
    """x + Lap(1 / epsilon_local) for an answer x in [0, 1]; any other interval is scaled to this one first.

    It is `epsilon_local`-LDP. Its blanket is a Laplace law around 1/2 of the same scale, with probability
    e^(−epsilon_local/2) (balle-2019, Lemma 5.1). The noise is a real number: a client that rounds it needs a separate
    proof, and hubbub's clients do not make such reports. Raises AccountingError unless 1e-20 ≤ epsilon_local ≤ 40.
    """

    kind: ClassVar[str] = "laplace"
    counts_dummies: ClassVar[bool] = True
    members: ClassVar[Mapping[str, Fits]] = {"epsilon_local_hex": is_text}

    epsilon_local: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon_local", checked_epsilon_local(self.epsilon_local))
        if self.epsilon_local == 0:
            raise AccountingError(
                "epsilon_local is 0, but Laplace noise of infinite scale is not a law; give a number above 0"
            )

    def content(self) -> dict[str, Any]:
        """Return its one form as JSON values."""
        return {"mechanism": self.kind, "epsilon_local_hex": self.epsilon_local.hex()}

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> "Laplace":
        """Read the output of `content`; raises AccountingError for anything else."""
        check_content(cls.kind, cls.members, content)
        return cls(read_real("epsilon_local_hex", content["epsilon_local_hex"]))

    @property
    def likelihood_ratio(self) -> Fraction:
        """e^epsilon_local, rounded up beyond 50 digits."""
        return grown_exp(self.epsilon_local)

    @property
    def gamma(self) -> Fraction:
        """Total variation similarity e^(−epsilon_local/2), rounded down beyond 50 digits."""
        return 1 / grown_exp(self.epsilon_local / 2)

    def density(self, x: Fraction, y: Fraction) -> Decimal:
        """Return the density of the report `y` for the answer `x` in [0, 1], to 75 digits."""
        local = Decimal(self.epsilon_local)
        distance = exact_decimal(abs(y - check_answer(x)))
        decay = PRECISE.exp(-PRECISE.multiply(local, distance))
        return PRECISE.divide(PRECISE.multiply(local, decay), Decimal(2))

    def below(self, x: Fraction, y: Fraction) -> Decimal:
        """Return the probability of a report below `y` for the answer `x` in [0, 1], to 75 digits."""
        distance = exact_decimal(abs(y - check_answer(x)))
        tail = PRECISE.divide(PRECISE.exp(-PRECISE.multiply(Decimal(self.epsilon_local), distance)), Decimal(2))
        return tail if y < x else PRECISE.subtract(Decimal(1), tail)


def check_answer(x: Fraction) -> Fraction:
    """Return `x`, an answer in [0, 1], or raise AccountingError."""
    if not 0 <= x <= 1:
        raise AccountingError(
            f"answer is {x}; give a number from 0 to 1, and scale the interval of answers to this one"
        )
    return x
