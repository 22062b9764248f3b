"""A randomizer of everything that one person sends over all rounds of a task, drawn once and sent a piece a round."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from hubbub.accountant.errors import AccountingError, shown
from hubbub.accountant.mechanisms.generic import Generic
from hubbub.accountant.mechanisms.krr import KRR
from hubbub.accountant.mechanisms.laplace import Laplace
from hubbub.accountant.mechanisms.rappor import RAPPOR
from hubbub.accountant.mechanisms.written import Fits, check_content, is_count, is_text, read_real


@dataclass(frozen=True)
class Sequence(Generic):
    """What one person sends in all rounds together is one `epsilon_local`-LDP report, whatever the number of rounds.

    Its density, relative to fair coins that depend on nothing, is between c and c·e^epsilon_local for every input, in
    every set of rounds. `steady` is how many honest people take part in every round in which a given person does: only
    they hide that person, since who misses a round sends another sequence. It cannot be measured, as nobody can link
    the rounds' reports, so a task states it beforehand (docs/accounting.md, "One report over many rounds").
    """

    kind: ClassVar[str] = "sequence"
    members: ClassVar[Mapping[str, Fits]] = {"epsilon_local_hex": is_text, "steady": is_count}

    steady: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mixed or type(self.steady) is not int or self.steady < 1:
            raise AccountingError(
                f"steady is {shown(self.steady)} and mixed {shown(self.mixed)}; a sequence is one common randomizer, "
                "and at least 1 person takes part in every round"
            )

    def content(self) -> dict[str, Any]:
        """Return its one form as JSON values."""
        return {"mechanism": self.kind, "epsilon_local_hex": self.epsilon_local.hex(), "steady": self.steady}

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> "Sequence":
        """Read what `content` wrote; raises AccountingError for anything else."""
        check_content(cls.kind, cls.members, content)
        return cls(read_real("epsilon_local_hex", content["epsilon_local_hex"]), steady=content["steady"])


def differing_rounds(mechanism: KRR | Generic | Laplace | RAPPOR, rounds: int) -> int:
    """Return how many of `rounds` reports a person's privacy pays for: one, where all of them are one report."""
    return min(rounds, 1) if isinstance(mechanism, Sequence) else rounds


def hiding_reports(mechanism: KRR | Generic | Laplace | RAPPOR, reports: int) -> int:
    """Return how many of a batch's honest `reports` hide a person: no more than are steady, where rounds are linked."""
    return min(reports, mechanism.steady) if isinstance(mechanism, Sequence) else reports
