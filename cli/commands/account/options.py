"""Options that the commands of `hubbub account` share: mechanisms, batches, and which bound to use."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from hubbub.accountant.errors import AccountingError, OutsideConditions
from hubbub.protos.errors import UsageError


class MechanismName(StrEnum):
    """Mechanisms the command line knows."""

    KRR = "krr"
    GENERIC = "generic"
    RAPPOR = "rappor"
    LAPLACE = "laplace"
    GAUSSIAN = "gaussian"


class QueryKind(StrEnum):
    """Kinds of query that can be calibrated."""

    HISTOGRAM = "histogram"
    SUM = "sum"
    TEXT = "text"


class LocalMechanismName(StrEnum):
    """Mechanisms with a local ε, which compose and have Rényi divergences."""

    KRR = "krr"
    GENERIC = "generic"
    RAPPOR = "rappor"
    LAPLACE = "laplace"


@contextlib.contextmanager
def option_values() -> Iterator[None]:
    """Say that a value out of its range is bad use, with exit status 2.

    A theorem that does not cover the question, or arithmetic that fails, is not: it stays a failure.
    """
    from hubbub.accountant.arithmetic_errors import BeyondArithmetic

    try:
        yield
    except (OutsideConditions, BeyondArithmetic):
        raise
    except AccountingError as error:
        raise UsageError(str(error)) from error


def named(mechanism: MechanismName | LocalMechanismName | None, law: Path | None) -> str:
    """Return the name of the mechanism that is described; UsageError unless exactly one of the two options is given."""
    from hubbub.cli.mechanisms.arguments import LAW

    if (mechanism is None) == (law is None):
        raise UsageError("give exactly one of --mechanism and --law; a law describes a mechanism by itself")
    return LAW if mechanism is None else mechanism.value


LocalMechanismOption = Annotated[
    LocalMechanismName | None,
    typer.Option(
        "--mechanism",
        help="krr: k-ary randomized response. generic: any one randomizer, common to all. rappor: one-time unary "
        "encoding. laplace: noise on an answer from an interval. Gaussian noise has no local ε: ask `account epsilon`.",
    ),
]
MechanismOption = Annotated[
    MechanismName | None,
    typer.Option(
        "--mechanism",
        help="krr: k-ary randomized response. generic: any one randomizer, common to all. rappor: one-time unary "
        "encoding. laplace, gaussian: noise on an answer from an interval; gaussian has no local ε, so it is answered "
        "for one round.",
    ),
]
Law = Annotated[
    Path | None,
    typer.Option(
        "--law",
        help='Instead of --mechanism, any randomizer: a JSON file {"law": [["1/2", "1/4", "1/4"], …]}, a row an input, '
        "a column an output, exact. docs/explanation/accounting-mechanisms.md says what else it may hold.",
        metavar="FILE.json",
    ),
]
Categories = Annotated[int | None, typer.Option("--categories", help="Categories of krr or rappor.")]
LocalEpsilon = Annotated[float | None, typer.Option("--local-epsilon", help="Local privacy, as the real number it is.")]
Gamma = Annotated[str | None, typer.Option("--gamma", help="Blanket probability of krr, exact: W/4294967296.")]
Truthful = Annotated[
    str | None, typer.Option("--truthful", help="rappor: chance that the true bit is sent as 1, exact: 0.75 or 3/4.")
]
Other = Annotated[
    str | None, typer.Option("--other", help="rappor: chance that any other bit is sent as 1, exact: 0.25 or 1/4.")
]
Sigma = Annotated[
    float | None, typer.Option("--sigma", help="gaussian: standard deviation, in widths of the answers' interval.")
]
SamplingRate = Annotated[
    str | None,
    typer.Option(
        "--sampling-rate",
        help="krr: each of --reports clients takes part in a round with this probability, exact as 0.1 or 1/10, by "
        "itself and in secret (Poisson sampling).",
    ),
]
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
        "Over several rounds, its pair is composed. What attacks reach is the lower end of every answer, not a bound.",
    ),
]
HonestShare = Annotated[
    float, typer.Option("--honest-share", help="Share of the reports made as prescribed; only they hide anyone.")
]
Dummies = Annotated[
    int,
    typer.Option(
        "--dummies",
        help="Reports that the shuffler adds to every round: uniform ones of krr, else the randomizer's own of random "
        "answers.",
    ),
]
Cap = Annotated[
    float | None, typer.Option("--local-epsilon-cap", help="Largest local ε: what holds if all servers collude.")
]
