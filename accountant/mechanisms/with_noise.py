"""Defines a randomizer beside noise of the shuffler: dummies of each symbol, their numbers drawn from one law."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

from hubbub.accountant.errors import AccountingError, TakesNoNoise, shown
from hubbub.accountant.mechanisms.exact_values import Fits, check_content
from hubbub.accountant.mechanisms.hashed import Hashed
from hubbub.accountant.mechanisms.krr import KRR
from hubbub.accountant.mechanisms.noise_law import NoiseLaw, is_noise
from hubbub.accountant.mechanisms.tree_nodes import TreeNodes

Imitated = KRR | Hashed | TreeNodes
"""The randomizers whose reports a shuffler can imitate symbol by symbol."""

KINDS: Mapping[str, type[Imitated]] = {KRR.kind: KRR, Hashed.kind: Hashed, TreeNodes.kind: TreeNodes}
"""Each of them by its name."""


@dataclass(frozen=True)
class WithNoise:
    """Reports of `randomizer`; the shuffler adds z_j reports of each symbol j, each z_j an independent draw of `noise`.

    A symbol is one value of a report: a category of kRR, a cell of a row of hashed kRR, or the value of a tree's node.
    If kRR has two categories, only z_1 is drawn, and z_0 = 2·reach − z_1: the total is fixed, which hides the same with
    half the noise. Of a tree's node only the numbers of −1 and +1 are drawn, and the value 0 gets the rest of a fixed
    total. The shuffler destroys every z_j when it releases the batch; their sum is public.

    So one person is hidden even if everybody else's report is known (docs/explanation/accounting-noise.md).

    If `ends`, composition counts the losses at the ends of the law one by one, not as infinite: that is tighter if the
    ends have more mass than δ, and coarser otherwise. It changes no law, and is never written.

    Raises:
        TakesNoNoise: if the shuffler cannot imitate the reports of `randomizer` symbol by symbol.
    """

    kind: ClassVar[str] = "with-noise"
    members: ClassVar[Mapping[str, Fits]] = {
        "noise": is_noise,
        "randomizer": lambda value: isinstance(value, Mapping) and value.get("mechanism") in KINDS,
    }

    randomizer: Imitated
    noise: NoiseLaw
    ends: bool = False

    def __post_init__(self) -> None:
        if type(self.randomizer) not in KINDS.values():
            kind = getattr(self.randomizer, "kind", shown(self.randomizer))
            raise TakesNoNoise(
                f"noise of the shuffler beside {kind} is not proven: it cannot add reports of each symbol; use "
                f"{' or '.join(KINDS)}, or leave the noise out"
            )
        if not isinstance(self.noise, NoiseLaw):
            raise AccountingError(f"noise is {shown(self.noise)}; give a NoiseLaw")

    def content(self) -> dict[str, Any]:
        """Return its one form as JSON values; raises AccountingError if the randomizer has none."""
        return {"mechanism": self.kind, "noise": self.noise.content(), "randomizer": self.randomizer.content()}

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> "WithNoise":
        """Read the output of `content`; raises AccountingError for anything else."""
        check_content(cls.kind, cls.members, content)
        inner = content["randomizer"]
        return cls(KINDS[inner["mechanism"]].read(inner), NoiseLaw.read(content["noise"]))

    @property
    def counts_dummies(self) -> bool:
        """Whether the randomizer's bounds count uniform dummies too."""
        return self.randomizer.counts_dummies

    @property
    def krr(self) -> KRR:
        """KRR over the symbols that one answer can reach: the randomizer, or one row of it.

        For a tree's nodes it is kRR of two values of the same local ε. Beside it no unit is hidden better than beside
        the node (accounting-noise-over-time.md).
        """
        if isinstance(self.randomizer, TreeNodes):
            return KRR(2, 2 / (self.randomizer.likelihood_ratio + 1))
        return self.randomizer.krr if isinstance(self.randomizer, Hashed) else self.randomizer

    @property
    def fixed_total(self) -> bool:
        """Whether the number of all dummies is fixed, so that one symbol's number follows from the others."""
        return isinstance(self.randomizer, TreeNodes) or (
            isinstance(self.randomizer, KRR) and self.randomizer.categories == 2
        )

    @property
    def one_moves(self) -> bool:
        """Whether one drawn number alone hides what is paid for once; if not, two of them do.

        A unit of a tree's nodes moves the number of −1 or that of +1. One round alone may move both.
        """
        if isinstance(self.randomizer, TreeNodes):
            return not (self.randomizer.alone and self.randomizer.node.signed)
        return self.fixed_total

    @property
    def one_round(self) -> "WithNoise":
        """The law of one round alone."""
        if not isinstance(self.randomizer, TreeNodes):
            return self
        return replace(self, randomizer=self.randomizer.one_round)

    @property
    def symbols(self) -> int:
        """How many symbols a report can be: |R|."""
        if isinstance(self.randomizer, TreeNodes):
            return len(self.randomizer.node.values)
        rows = self.randomizer.rows if isinstance(self.randomizer, Hashed) else 1
        return rows * self.krr.categories

    @property
    def draws(self) -> int:
        """How many numbers are drawn for a batch: one for each symbol, or for all but one if the total is fixed."""
        return self.symbols - 1 if self.fixed_total else self.symbols

    @property
    def dummies_range(self) -> tuple[int, int]:
        """The fewest and the most dummies of one batch: equal if the total is fixed."""
        most = self.draws * self.noise.largest
        return (most if self.fixed_total else 0), most

    @property
    def expected_dummies(self) -> int:
        """The expected number of dummies of one batch; if the total is fixed it is the number itself."""
        return self.dummies_range[1] if self.fixed_total else self.symbols * self.noise.reach

    def by_symbol(self, drawn: Sequence[int]) -> tuple[int, ...]:
        """Return the number of each symbol from the drawn ones; if the total is fixed, one symbol has the rest.

        That is symbol 0 of two categories, and the value 0 of a tree's node.
        """
        if not self.fixed_total:
            return tuple(drawn)
        place = self.randomizer.node.values.index(0) if isinstance(self.randomizer, TreeNodes) else 0
        return (*drawn[:place], self.dummies_range[0] - sum(drawn), *drawn[place:])

    @property
    def likelihood_ratio(self) -> Fraction:
        """The randomizer's: it is what is left if shuffler and analyzer collude."""
        return self.randomizer.likelihood_ratio

    @property
    def epsilon_local(self) -> float:
        """The randomizer's local ε, rounded up."""
        return self.randomizer.epsilon_local
