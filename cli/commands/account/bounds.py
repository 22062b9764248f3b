"""Prints every bound side by side: `hubbub account bounds`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from hubbub.accountant.errors import AccountingError
from hubbub.cli.commands.account.options import (
    Categories,
    Cells,
    Delta,
    Dummies,
    Gamma,
    HashRows,
    HonestShare,
    Law,
    LocalEpsilon,
    MechanismOption,
    Noise,
    Other,
    Reports,
    Rounds,
    SamplingRate,
    Sigma,
    Truthful,
    named,
    option_values,
)
from hubbub.cli.terminal.output import Json, console, failures, print_json
from hubbub.cli.terminal.progress import working
from hubbub.protos.errors import UsageError

if TYPE_CHECKING:
    from hubbub.accountant.bounds.catalog import Assessment
    from hubbub.accountant.mechanisms import AnyMechanism
    from hubbub.accountant.pairs import GaussianRound, Part
    from hubbub.cli.mechanisms.arguments import Description

Order = Annotated[
    float | None, typer.Option("--order", help="Also print Rényi divergences of this order, a real number above 1.")
]
Same = Annotated[
    int | None,
    typer.Option(
        "--same",
        help="If clients bring their own randomizers: how many reports are made by the same one. Only these hide each "
        "other. [default: all]",
    ),
]


def bounds(
    reports: Reports,
    delta: Delta,
    mechanism: MechanismOption = None,
    law: Law = None,
    categories: Categories = None,
    cells: Cells = None,
    rows: HashRows = None,
    local_epsilon: LocalEpsilon = None,
    gamma: Gamma = None,
    truthful: Truthful = None,
    other: Other = None,
    sigma: Sigma = None,
    noise: Noise = None,
    rounds: Rounds = 1,
    honest_share: HonestShare = 1.0,
    dummies: Dummies = 0,
    same: Same = None,
    sampling_rate: SamplingRate = None,
    order: Order = None,
    as_json: Json = False,
) -> None:
    """Print the ε of every bound at δ, side by side.

    It marks the bound that a certificate uses, and prints why other bounds do not apply.

    Over several rounds, each bound is listed once for every way of composing it; this can take some seconds. With
    --sampling-rate, the exact pair is listed next to the curve that girgis-2021 plots, which is marked as not proven.

    Example: hubbub account bounds --mechanism krr --categories 16 --local-epsilon 4 --reports 10000 --delta 1e-6
    """
    with failures(as_json), option_values():
        from hubbub.cli.mechanisms.arguments import Description, hiding_part

        started = time.perf_counter()
        name = named(mechanism, law)
        said = Description(name, categories, local_epsilon, gamma, truthful, other, sigma, law, noise, cells, rows)
        known = _mechanism(said)
        if sampling_rate is not None and (dummies or order is not None or same is not None):
            raise UsageError("--sampling-rate excludes --dummies, --order and --same; leave them out")
        part = hiding_part(known, reports, honest_share, rounds, dummies, same)
        with working("computing every bound", as_json):
            found = _assessed(known, part, delta, order, sampling_rate)
        if as_json:
            print_json(_document(part, delta, found, time.perf_counter() - started))
        else:
            _print(_heading(known, part, delta, order), found)


def _mechanism(description: Description) -> AnyMechanism:
    from hubbub.cli.mechanisms.arguments import read_mechanism

    try:
        return read_mechanism(description)
    except AccountingError as error:
        # A wrong description of a mechanism is a usage error: the exit status is 2, as for an unknown option.
        raise UsageError(str(error)) from error


def _assessed(
    mechanism: AnyMechanism, part: Part | GaussianRound, delta: float, order: float | None, sampling_rate: str | None
) -> Sequence[Assessment]:
    from hubbub.accountant.bounds.catalog import assess
    from hubbub.accountant.bounds.poisson_sampling import assess_sampled
    from hubbub.accountant.mechanisms import Gaussian
    from hubbub.cli.mechanisms.arguments import read_exact

    if sampling_rate is not None:
        if isinstance(mechanism, Gaussian):
            raise UsageError("gaussian has no local epsilon and is not sampled; leave --sampling-rate out")
        rate = read_exact(sampling_rate, "--sampling-rate")
        return assess_sampled(mechanism, part.reports, delta, rate, rounds=part.rounds)
    return assess(mechanism, part.reports, delta, dummies=part.dummies, rounds=part.rounds, order=order)


def _document(
    part: Part | GaussianRound, delta: float, found: Sequence[Assessment], seconds: float
) -> dict[str, object]:
    from hubbub.accountant.bounds.best_bounds import local_epsilon
    from hubbub.accountant.composition import epsilon_local
    from hubbub.accountant.pairs import Part

    local = epsilon_local([part]) if isinstance(part, Part) else local_epsilon(part.mechanism)
    return {
        "bounds": [asdict(each) for each in found],
        "epsilon_local": local,
        "delta": delta,
        "reports": part.reports,
        "rounds": part.rounds,
        "seconds": seconds,
    }


def _heading(mechanism: AnyMechanism, part: Part | GaussianRound, delta: float, order: float | None) -> str:
    from hubbub.accountant.bounds.bound import described

    words = [described(mechanism), f"n = {part.reports}", f"δ = {delta:g}"]
    words += [f"{part.dummies} dummies"] if part.dummies else []
    words += [f"{part.rounds} rounds"] if part.rounds > 1 else []
    words += [f"Rényi order {order:g}"] if order is not None else []
    return ", ".join(words)


def _print(heading: str, found: Sequence[Assessment]) -> None:
    from hubbub.accountant.bounds.exact import EXACT
    from hubbub.accountant.bounds.poisson_sampling import EXACT_PAIR
    from hubbub.cli.tables.printing import print_columns

    exact = {*EXACT, EXACT_PAIR}
    holding = [each for each in found if _numbers(each)]
    upper = [each for each in holding if each.direction == "upper"]
    groups = {
        "evaluated exactly": _rows([each for each in upper if each.bound in exact]),
        "formulas, for comparison": _rows([each for each in upper if each.bound not in exact and each.proven]),
        "not proven: a paper only plots it": _rows([each for each in upper if not each.proven]),
        "reached by attacks": _rows([each for each in holding if each.direction == "lower"]),
        "do not apply, or give no ε": _reasons([each for each in found if not _numbers(each)]),
    }
    printer = console()
    printer.print(heading, markup=False, soft_wrap=True)
    for title, rows in groups.items():
        if rows:
            printer.print(f"\n{title}", markup=False)
            print_columns(printer, rows)
    if any(each.chosen for each in found):
        printer.print("\n* used by a certificate", markup=False)


def _name(each: Assessment) -> str:
    return each.bound if each.composition is None else f"{each.bound}, {each.composition}"


def _numbers(each: Assessment) -> list[float]:
    found = (each.epsilon_upper, each.epsilon_lower, each.rdp_upper, each.rdp_lower)
    return [number for number in found if number is not None]


def _reasons(found: Sequence[Assessment]) -> list[tuple[str, ...]]:
    return [(f"  {each.bound}", (each.why_not or "").removeprefix(f"bound {each.bound!r} ")) for each in found]


def _rows(rows: Sequence[Assessment]) -> list[tuple[str, ...]]:
    order = any(each.rdp_upper is not None or each.rdp_lower is not None for each in rows)
    found = []
    for each in rows:
        mark = "*" if each.chosen else " "
        epsilon = _bounded("ε", each.epsilon_upper, each.epsilon_lower)
        renyi = [_bounded("D", each.rdp_upper, each.rdp_lower)] if order else []
        found.append((f"{mark} {_name(each)}", epsilon, *renyi, each.source))
    return found


def _bounded(sign: str, upper: float | None, lower: float | None) -> str:
    if upper is not None:
        return f"{sign} ≤ {_up(upper)}"
    return "" if lower is None else f"{sign} ≥ {_down(lower)}"


def _up(value: float) -> str:
    from hubbub.accountant.numbers import round_up_significant

    return f"{round_up_significant(value):.6g}"


def _down(value: float) -> str:
    from hubbub.accountant.numbers import round_down_significant

    # Rounded up, a lower end would be more than the attack reaches.
    return f"{round_down_significant(value):.6g}"
