"""Defines an unknown local randomizer: only its local ε is known."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from hubbub.accountant.mechanisms.exact import checked_epsilon_local, grown_exp
from hubbub.accountant.mechanisms.exact_values import Fits, check_content, is_flag, is_text, read_real


@dataclass(frozen=True)
class Generic:
    """Any `epsilon_local`-LDP randomizer: one common to the batch, unless `mixed`.

    `mixed` means that the *places* of the shuffled batch may have different randomizers, chosen adaptively: answers
    are shuffled first, then the i-th place applies its own (feldman-2022, Thm 3.1). It does not mean that clients
    choose their own randomizers: such a client hides only among clients with the same randomizer, and only these count
    as reports (erlingsson-2019, Cor. 9).
    """

    kind: ClassVar[str] = "generic"
    counts_dummies: ClassVar[bool] = True
    members: ClassVar[Mapping[str, Fits]] = {"epsilon_local_hex": is_text, "mixed": is_flag}

    epsilon_local: float
    mixed: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon_local", checked_epsilon_local(self.epsilon_local))

    def content(self) -> dict[str, Any]:
        """Return its one form as JSON values."""
        return {"mechanism": self.kind, "epsilon_local_hex": self.epsilon_local.hex(), "mixed": self.mixed}

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> "Generic":
        """Read the output of `content`; raises AccountingError for anything else."""
        check_content(cls.kind, cls.members, content)
        return cls(read_real("epsilon_local_hex", content["epsilon_local_hex"]), content["mixed"])

    @property
    def likelihood_ratio(self) -> Fraction:
        """e^epsilon_local, rounded up beyond 50 digits."""
        return grown_exp(self.epsilon_local)
