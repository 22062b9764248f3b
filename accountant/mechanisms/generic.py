"""Any local randomizer, known only by its local ε."""

from dataclasses import dataclass
from fractions import Fraction

from hubbub.accountant.mechanisms.exact import checked_epsilon_local, grown_exp


@dataclass(frozen=True)
class Generic:
    """Any `epsilon_local`-LDP randomizer: one common to the batch, unless `mixed`.

    `mixed` means that the *places* of the shuffled batch may have different randomizers, chosen adaptively: answers
    are shuffled first, then the i-th place applies its own (feldman-2022, Thm 3.1). It does not mean that clients
    bring randomizers of their own: such a client hides only among those that share its randomizer, and only they
    count as reports (erlingsson-2019, Cor. 9).
    """

    epsilon_local: float
    mixed: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon_local", checked_epsilon_local(self.epsilon_local))

    @property
    def likelihood_ratio(self) -> Fraction:
        """e^epsilon_local, rounded up beyond 50 digits."""
        return grown_exp(self.epsilon_local)
