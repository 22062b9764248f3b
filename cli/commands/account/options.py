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
    """Mechanisms that the command line knows."""

    KRR = "krr"
    GENERIC = "generic"
    COMMON = "common"
    RAPPOR = "rappor"
    HASHED = "hashed"
    LAPLACE = "laplace"
    GAUSSIAN = "gaussian"


class QueryKind(StrEnum):
    """Kinds of query that can be calibrated."""

    HISTOGRAM = "histogram"
    SUM = "sum"
    TEXT = "text"


@contextlib.contextmanager
def option_values() -> Iterator[None]:
    """Turn a value out of its range into bad use, with exit status 2.

    A theorem that does not cover the question, and arithmetic that fails, stay failures, with exit status 1.
    """
    from hubbub.accountant.arithmetic_errors import BeyondArithmetic

    try:
        yield
    except (OutsideConditions, BeyondArithmetic):
        raise
    except AccountingError as error:
        raise UsageError(str(error)) from error


def named(mechanism: MechanismName | None, law: Path | None) -> str:
    """Return the mechanism's name; UsageError unless exactly one of the two options is given."""
    from hubbub.cli.mechanisms.arguments import LAW

    if (mechanism is None) == (law is None):
        raise UsageError("give exactly one of --mechanism and --law; a law alone describes a mechanism")
    return LAW if mechanism is None else mechanism.value


MechanismOption = Annotated[
    MechanismName | None,
    typer.Option(
        "--mechanism",
        help="krr: k-ary randomized response. generic: any randomizer, or one for each place of the shuffled batch. "
        "common: any one randomizer that all people share. rappor: one-time unary encoding. hashed: krr of a hash of "
        "the answer, or of a text. laplace, gaussian: noise on an answer from an interval. gaussian has no ε_local, so "
        "it works for one round only.",
    ),
]
Law = Annotated[
    Path | None,
    typer.Option(
        "--law",
        help='Any randomizer instead of a named one: a JSON file {"law": [["1/2", "1/4", "1/4"], …]} of exact '
        "probabilities. A row is an input, a column an output. docs/explanation/accounting-mechanisms.md lists other "
        "members.",
        metavar="FILE.json",
    ),
]
Categories = Annotated[int | None, typer.Option("--categories", help="krr, rappor: number of categories, k.")]
Cells = Annotated[int | None, typer.Option("--cells", help="hashed: how many values a hash has, g; 3 or more.")]
HashRows = Annotated[
    int | None,
    typer.Option(
        "--rows", help="hashed: how many hash functions there are; no bound depends on it. [default: 256, as planned]"
    ),
]
LocalEpsilon = Annotated[
    float | None, typer.Option("--local-epsilon", help="ε_local of the randomizer, a real number.")
]
Gamma = Annotated[
    str | None,
    typer.Option(
        "--gamma", help="krr, hashed: blanket probability, a number as 0.25, 1/4 or W/4294967296; taken exactly."
    ),
]
Truthful = Annotated[
    str | None, typer.Option("--truthful", help="rappor: chance that the true bit is sent as 1, as 0.75 or 3/4.")
]
Other = Annotated[
    str | None, typer.Option("--other", help="rappor: chance that any other bit is sent as 1, as 0.25 or 1/4.")
]
Sigma = Annotated[
    float | None,
    typer.Option("--sigma", help="gaussian: standard deviation, as a multiple of the width of the answers' interval."),
]
Noise = Annotated[
    str | None,
    typer.Option(
        "--noise",
        help="krr, hashed: a shuffler that adds dummies of each symbol, their numbers drawn from this law. It hides a "
        "person even if all others lie. geometric takes a ratio, gaussian a variance, taken "
        "down to a multiple of 1/2**32. REACH is the mean of a number, and half the largest.",
        metavar="FAMILY:PARAMETER:REACH",
    ),
]
SamplingRate = Annotated[
    str | None,
    typer.Option(
        "--sampling-rate",
        help="krr: each of --reports clients takes part in a round with this probability (as 0.1, 1e-3 or 1/10), "
        "independently and in secret (Poisson sampling). [default: 1]",
    ),
]
Reports = Annotated[int, typer.Option("--reports", help="Reports in the batch, n.")]
Delta = Annotated[float, typer.Option("--delta", help="The δ of (ε, δ), above 0 and below 1.")]
Rounds = Annotated[int, typer.Option("--rounds", help="How many rounds everyone takes part in; they are composed.")]
Bound = Annotated[
    str,
    typer.Option(
        "--bound",
        help="The bound for the upper end: best, or one that `account bounds` lists: whole-law, blanket, 2rr, "
        "stronger-clones, clones, noise, koskela-strong, koskela-clones, local, balle-closed, balle-generic, balle- "
        "hoeffding, balle-bennett, erlingsson, erlingsson-middle, erlingsson-simple, erlingsson-rdp, clones- "
        "closed, feldman-closed, clones-rdp, girgis-upper-1, girgis-simplified, girgis-upper-2. Over several "
        "rounds it is composed. The lower end always comes from attacks.",
    ),
]
HonestShare = Annotated[
    float, typer.Option("--honest-share", help="Share of the reports that are honest; only these hide anyone.")
]
Dummies = Annotated[
    int,
    typer.Option(
        "--dummies",
        help="Reports that the shuffler adds to every round: uniform ones for krr and hashed, else the randomizer's "
        "output on random answers.",
    ),
]
Cap = Annotated[
    float | None, typer.Option("--local-epsilon", help="Largest ε_local, the guarantee if all services collude.")
]
