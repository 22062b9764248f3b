"""Defines an unknown local randomizer: only its local ε is known."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from hubbub.accountant.mechanisms.exact import checked_epsilon_local, grown_exp
from hubbub.accountant.mechanisms.exact_values import Fits, check_content, is_text, read_real


@dataclass(frozen=True)
class Generic:
    """Any `epsilon_local`-LDP randomizer, common to the batch, or one for each place of it.

    Places are those of the *shuffled* batch: answers are shuffled first, then the i-th place applies a randomizer of
    its own, which may be chosen after seeing the outputs of the places before it (feldman-2022, Thm 3.1). Their
    largest local ε is `epsilon_local`.

    It does not mean that clients bring randomizers of their own and are shuffled afterwards. Such clients are covered
    if all their randomizers together are `epsilon_local`-LDP: no output is more than e^epsilon_local times as likely
    for one client and answer as for another client and answer. Otherwise a client hides only among clients with the
    same randomizer, and only these count as reports (erlingsson-2019, Cor. 9). accounting-clones.md has the proofs.
    """

    kind: ClassVar[str] = "generic"
    counts_dummies: ClassVar[bool] = True
    members: ClassVar[Mapping[str, Fits]] = {"epsilon_local_hex": is_text}

    epsilon_local: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon_local", checked_epsilon_local(self.epsilon_local))

    def content(self) -> dict[str, Any]:
        """Return its one form as JSON values."""
        return {"mechanism": self.kind, "epsilon_local_hex": self.epsilon_local.hex()}

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> "Generic":
        """Read the output of `content`; raises AccountingError for anything else."""
        check_content(cls.kind, cls.members, content)
        return cls(read_real("epsilon_local_hex", content["epsilon_local_hex"]))

    @property
    def likelihood_ratio(self) -> Fraction:
        """e^epsilon_local, rounded up beyond 50 digits."""
        return grown_exp(self.epsilon_local)


@dataclass(frozen=True)
class Common(Generic):
    """Any one `epsilon_local`-LDP randomizer that all people of a batch share; places do not choose it adaptively.

    Of places with randomizers of their own it covers those whose randomizers were all fixed before the batch.
    """

    kind: ClassVar[str] = "common"
