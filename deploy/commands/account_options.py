"""What the commands of `hubbub account` have in common: the words for mechanisms, batches and what is asked."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class MechanismName(StrEnum):
    """Mechanisms the command line knows."""

    KRR = "krr"
    GENERIC = "generic"


class QueryKind(StrEnum):
    """Kinds of query that can be calibrated."""

    HISTOGRAM = "histogram"
    SUM = "sum"


MechanismOption = Annotated[
    MechanismName,
    typer.Option("--mechanism", help="krr: k-ary randomized response. generic: any one randomizer, common to all."),
]
Categories = Annotated[int | None, typer.Option("--categories", help="Categories k of krr.")]
LocalEpsilon = Annotated[float | None, typer.Option("--local-epsilon", help="Local privacy, as the real number it is.")]
Gamma = Annotated[str | None, typer.Option("--gamma", help="Blanket probability of krr, exact: W/4294967296.")]
Mixed = Annotated[
    bool,
    typer.Option(
        "--mixed",
        help="generic: each place of the batch, shuffled first, may apply a randomizer of its own. It does not cover "
        "clients that each bring their own: those hide only among reports made by the same randomizer.",
    ),
]
Reports = Annotated[int, typer.Option("--reports", help="Reports in the batch, n.")]
Delta = Annotated[float, typer.Option("--delta", help="The δ of (ε, δ), above 0 and below 1.")]
Rounds = Annotated[int, typer.Option("--rounds", help="Rounds that everyone takes part in, composed.")]
Bound = Annotated[
    str,
    typer.Option(
        "--bound",
        help="Which bound gives the upper end: best, blanket, 2rr, stronger-clones, clones, local. "
        "Over several rounds, its pair is composed.",
    ),
]
HonestShare = Annotated[
    float, typer.Option("--honest-share", help="Share of the reports made as prescribed; only they hide anyone.")
]
Dummies = Annotated[int, typer.Option("--dummies", help="Uniform reports that the shuffler adds to every round.")]
Cap = Annotated[
    float | None, typer.Option("--local-epsilon-cap", help="Largest local ε: what holds if all servers collude.")
]
