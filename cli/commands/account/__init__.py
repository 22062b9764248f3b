"""`hubbub account …`: the accountant on the command line."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hubbub.accountant.errors import AccountingError
from hubbub.cli.commands.account.bounds import bounds
from hubbub.cli.commands.account.longitudinal import longitudinal
from hubbub.cli.commands.account.options import (
    Bound,
    Cap,
    Categories,
    Cells,
    Delta,
    Dummies,
    Gamma,
    HashRows,
    HonestShare,
    Law,
    LocalEpsilon,
    MechanismName,
    MechanismOption,
    Noise,
    Other,
    QueryKind,
    Reports,
    Rounds,
    SamplingRate,
    Sigma,
    Truthful,
    named,
    option_values,
)
from hubbub.cli.commands.account.plot import plot
from hubbub.cli.terminal.output import Json, console, failures, print_json
from hubbub.cli.terminal.progress import working

if TYPE_CHECKING:
    from hubbub.accountant.calibration.design import Calibration
    from hubbub.accountant.mechanisms import AnyMechanism
    from hubbub.accountant.pairs import GaussianRound, Part
    from hubbub.planning.alternatives import Alternative
    from hubbub.planning.comparison import PrivacyTarget
    from hubbub.queries.design import Design
    from hubbub.queries.randomizers.randomizer import Randomizer

MISSING = {
    "delta_lower": "unknown: no attack on this is known",
    "epsilon_lower": "unknown: no attack on this is known",
    "epsilon_local": "none: this noise alone has no local epsilon",
    "levels": "none: a histogram has categories",
    "rdp_lower": "unknown: no attack on this is known",
}
"""What is printed for a missing number; in JSON it is null."""

FEW_DIGITS = {"numerical_slack": 2, "seconds": 2}
"""Significant digits to print of numbers of which only the size matters; others get 8."""

app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Compute ε and δ of shuffled batches; choose randomizers."
)
app.command()(bounds)
app.command()(longitudinal)
app.command()(plot)


@app.command()
def epsilon(
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
    sampling_rate: SamplingRate = None,
    bound: Bound = "best",
    honest_share: HonestShare = 1.0,
    dummies: Dummies = 0,
    as_json: Json = False,
) -> None:
    """Print the central ε at δ of everyone in shuffled batches.

    It prints an upper end, which is proven, and, if one is known, a lower end, which an attack reaches.

    Examples: hubbub account epsilon --mechanism krr --categories 16 --local-epsilon 4 --reports 10000 --delta 1e-6;
    hubbub account epsilon --mechanism rappor --categories 32 --truthful 0.5 --other 0.1 --reports 5000 --delta 1e-6;
    hubbub account epsilon --mechanism hashed --cells 1024 --local-epsilon 4 --reports 100000 --delta 1e-6;
    hubbub account epsilon --law FILE.json --reports 10000 --delta 1e-6;
    hubbub account epsilon --mechanism krr --categories 16 --local-epsilon 8 --noise geometric:0.6065:27 --reports 10000
    --delta 1e-6
    """
    with failures(as_json), option_values():
        from hubbub.cli.mechanisms.arguments import epsilon_of

        known = _mechanism(
            mechanism, (categories, local_epsilon, gamma, truthful, other, sigma, law, noise, cells, rows)
        )
        started = time.perf_counter()
        part = _part(known, reports, honest_share, dummies, rounds, sampling_rate)
        with working("computing ε", as_json):
            found = epsilon_of(part, delta, bound)
        _hold_delta(delta, reports, found.epsilon_upper)
        _show(asdict(found), started, as_json)


@app.command()
def delta(
    reports: Reports,
    epsilon: Annotated[float, typer.Option("--epsilon", help="The central ε.")],
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
    sampling_rate: SamplingRate = None,
    bound: Bound = "best",
    honest_share: HonestShare = 1.0,
    dummies: Dummies = 0,
    as_json: Json = False,
) -> None:
    """Print the δ at a central ε of everyone in shuffled batches.

    It prints an upper end, which is proven, and, if one is known, a lower end, which an attack reaches.

    Example: hubbub account delta --mechanism krr --categories 16 --local-epsilon 4 --reports 10000 --epsilon 0.36
    """
    with failures(as_json), option_values():
        from hubbub.cli.mechanisms.arguments import delta_of

        known = _mechanism(
            mechanism, (categories, local_epsilon, gamma, truthful, other, sigma, law, noise, cells, rows)
        )
        started = time.perf_counter()
        part = _part(known, reports, honest_share, dummies, rounds, sampling_rate)
        with working("computing δ", as_json):
            found = delta_of(part, epsilon, bound)
        _show(asdict(found), started, as_json)


@app.command()
def rdp(
    reports: Reports,
    order: Annotated[float, typer.Option("--order", help="The order λ, a real number above 1.")],
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
    honest_share: HonestShare = 1.0,
    dummies: Dummies = 0,
    as_json: Json = False,
) -> None:
    """Print the Rényi divergence of one round, in nats.

    Divergences of several rounds add up.

    Example: hubbub account rdp --mechanism generic --local-epsilon 0.5 --reports 1000000 --order 19
    """
    with failures(as_json), option_values():
        from hubbub.accountant.bounds.best_bounds import local_epsilon as local_epsilon_of
        from hubbub.accountant.pairs.renyi import rdp_bound, rdp_lower, rdp_upper

        known = _mechanism(
            mechanism, (categories, local_epsilon, gamma, truthful, other, sigma, law, noise, cells, rows)
        )
        part = _part(known, reports, honest_share, dummies)
        started = time.perf_counter()
        asked = (part.mechanism, part.reports, order, part.dummies)
        with working("computing the divergence", as_json):
            upper, lower = rdp_upper(*asked), rdp_lower(*asked)
        answer = {
            "rdp_upper": upper,
            "rdp_lower": lower,
            "order": order,
            "epsilon_local": local_epsilon_of(part.mechanism),
        } | _resting_on(rdp_bound(part.mechanism, upper, order))
        _show(answer, started, as_json)


RDP_SOURCES = {
    "local": "one report alone: this bound is the same for every number of reports",
    "pairs": "dominating pairs of the shuffled batch, summed over their atoms",
}
"""What the upper end of a Rényi divergence rests on, by the name of its bound."""


def _resting_on(bound: str) -> dict[str, str]:
    return {"bound": bound, "source": RDP_SOURCES[bound]}


@app.command()
def compose(
    delta: Delta,
    rounds: Annotated[
        Path | None, typer.Argument(help="JSON file: a list of rows, one per kind of round.", metavar="[ROUNDS.json]")
    ] = None,
    law: Law = None,
    reports: Annotated[int | None, typer.Option("--reports", help="With --law: reports in each batch, n.")] = None,
    times: Annotated[int, typer.Option("--rounds", help="With --law: how many rounds everyone takes part in.")] = 1,
    as_json: Json = False,
) -> None:
    """Print the ε at δ of one person's reports in all rounds.

    ROUNDS.json is a JSON list of objects, one for each kind of round.

    An object has mechanism ("krr", "generic", "common", "rappor", "hashed" or "laplace"), categories (krr and rappor
    only), cells (hashed only), and local_epsilon. In place of local_epsilon, krr and hashed take gamma, and rappor
    takes truthful and other. In place of all these, an object has law: the name of a file as --law takes it, or the
    content of such a file.

    An object also has reports: the fewest reports that any of its rounds may have, fixed beforehand. It may have rounds
    (1 by default), dummies, noise (krr and hashed, as --noise of `account epsilon` takes it) and sampling_rate (then
    reports is the number of clients).

    Examples: hubbub account compose ROUNDS.json --delta 1e-6;
    hubbub account compose --law FILE.json --reports 10000 --rounds 12 --delta 1e-6
    """
    with failures(as_json):
        from hubbub.accountant.composition import compose as composed
        from hubbub.cli.mechanisms.rounds_file import read_rounds
        from hubbub.protos.errors import UsageError

        if (rounds is None) == (law is None) or (law is None) != (reports is None):
            raise UsageError(
                "it takes the rounds in one of two forms; give either ROUNDS.json, or --law with --reports"
            )
        with option_values() if law else nullcontext():
            parts = read_rounds(rounds) if rounds else [_of_law(law, reports, times)]
        started = time.perf_counter()
        with option_values():
            with working("composing", as_json):
                found = composed(parts, delta)
            _hold_delta(delta, min(part.reports for part in parts), found.epsilon_upper)
        _show(asdict(found), started, as_json)


@app.command()
def calibrate(
    query: Annotated[QueryKind, typer.Option("--query", help="Kind of query.")],
    epsilon: Annotated[float, typer.Option("--epsilon", help="Largest central ε allowed.")],
    delta: Delta,
    reports: Reports,
    categories: Annotated[
        int | None, typer.Option("--categories", help="Number of categories of a histogram, or of texts.")
    ] = None,
    optional: Annotated[bool, typer.Option("--optional", help="Devices may have no answer.")] = False,
    randomizer: Annotated[
        str,
        typer.Option("--randomizer", help="Kind of randomizer, as a task names it; auto compares all kinds."),
    ] = "krr",
    share: Annotated[
        float,
        typer.Option("--share", help="If kinds are compared: the largest share of people with the same answer."),
    ] = 0.01,
    honest_share: HonestShare = 1.0,
    dummies: Dummies = 0,
    local_epsilon_cap: Cap = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Also show uniform dummies, noise, and other caps, as `hubbub plan` does.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Choose the randomizer with the smallest error at (ε, δ).

    For --query text, and with --randomizer auto, all kinds are compared by the exact errors of a count, with and
    without --dummies. For a text, --categories is how many texts a list of all of them would have.

    Examples: hubbub account calibrate --query sum --epsilon 0.5 --delta 1e-8 --reports 1000000;
    hubbub account calibrate --query histogram --categories 16 --epsilon 1 --delta 1e-6 --reports 10000 --compare;
    hubbub account calibrate --query text --categories 1000000 --epsilon 1 --delta 1e-6 --reports 1000000
    """
    with failures(as_json), option_values():
        from hubbub.accountant.calibration.calibrate import calibrate as choose
        from hubbub.cli.tables.planned_errors import alternatives_document, print_alternatives
        from hubbub.deploy.errors import as_usage_error
        from hubbub.planning import comparison
        from hubbub.planning.comparison import question_for
        from hubbub.protos.errors import UsageError
        from hubbub.queries.design import Design
        from hubbub.queries.errors import FieldError

        started = time.perf_counter()
        aim = comparison.PrivacyTarget(epsilon, delta, reports, local_epsilon_cap, honest_share)
        if query is QueryKind.TEXT or randomizer == "auto":
            _hold_delta(delta, reports)
            if compare:
                raise UsageError("--compare is for one randomizer; name it with --randomizer, or leave --compare out")
            _compare(query, categories, optional, share, aim, dummies, started, as_json)
            return
        with as_usage_error(FieldError):
            design = Design(question_for(query.value, categories, optional, randomizer))
        _hold_delta(delta, reports)
        with working("calibrating", as_json):
            (chosen,) = choose(
                [design],
                epsilon,
                delta,
                reports,
                epsilon_local_cap=local_epsilon_cap,
                honest_share=honest_share,
                dummies=dummies,
            )
        found = _alternatives(design, aim, dummies, as_json) if compare else {}
        document = {"alternatives": alternatives_document(found)["value"]} if compare and as_json else {}
        _show(_chosen(design, chosen) | document, started, as_json)
        if found and not as_json:
            print_alternatives(console(), found, local_epsilon_cap)


def _alternatives(
    design: Design, aim: PrivacyTarget, dummies: int, as_json: bool
) -> dict[str, tuple[Alternative, ...]]:
    from hubbub.cli.terminal.progress import progress_bars
    from hubbub.planning.alternatives import compare, steps_of

    with progress_bars(as_json) as bars:
        bar = bars.add_task("comparing", total=steps_of(aim, dummies))
        (rows,) = compare([design.question], aim, dummies, lambda: bars.advance(bar), by_digits=True)
    return {design.question.name: rows}


def _hold_delta(delta: float, reports: int, epsilon_upper: float | None = None) -> None:
    from hubbub.cli.tables.delta_warnings import check_delta

    check_delta(delta, reports, epsilon_upper)


def _compare(
    query: QueryKind,
    categories: int | None,
    optional: bool,
    share: float,
    aim: PrivacyTarget,
    dummies: int,
    started: float,
    as_json: bool,
) -> None:
    from hubbub.cli.tables.randomizers import candidates_document, print_candidates
    from hubbub.deploy.errors import as_usage_error
    from hubbub.planning.comparison import best, compare_randomizers, counted_questions
    from hubbub.queries.errors import FieldError

    with as_usage_error(FieldError):
        question, listed = counted_questions(query.value, categories, optional, share)
    with working("comparing randomizers", as_json):
        candidates = compare_randomizers(question, aim, dummies, listed)
    chosen = best(candidates, dummies)
    if chosen is None:
        raise AccountingError("; ".join(dict.fromkeys(each.why_not for each in candidates if each.why_not)))
    if as_json:
        documents = candidates_document(candidates, chosen)
        found = {"query": query.value, "share": share, "candidates": documents, "chosen": chosen.as_json()}
        print_json({**found, "seconds": time.perf_counter() - started})
        return
    print_candidates(console(), candidates, chosen)


def _mechanism(mechanism: MechanismName | None, given: tuple[Any, ...]) -> AnyMechanism:
    """Return the mechanism of a name, or of a law; `given` are the other members of a `Description`, in order."""
    from hubbub.cli.mechanisms.arguments import Description, read_mechanism
    from hubbub.protos.errors import UsageError

    said = Description("", *given)
    try:
        return read_mechanism(replace(said, mechanism=named(mechanism, said.law)))
    except AccountingError as error:
        raise UsageError(str(error)) from error


def _of_law(law: Path | None, reports: int | None, rounds: int) -> Part:
    from hubbub.accountant.pairs import Part
    from hubbub.cli.mechanisms.arguments import LAW, Description, read_local_mechanism

    return Part(read_local_mechanism(Description(LAW, law=law)), reports or 0, rounds)


def _part(
    mechanism: AnyMechanism,
    reports: int,
    honest_share: float,
    dummies: int,
    rounds: int = 1,
    sampling_rate: str | None = None,
) -> Part | GaussianRound:
    from hubbub.cli.mechanisms.arguments import hiding_part, read_exact

    rate = None if sampling_rate is None else read_exact(sampling_rate, "--sampling-rate")
    return hiding_part(mechanism, reports, honest_share, rounds, dummies, sampling_rate=rate)


def _chosen(design: Design, chosen: Calibration[Randomizer]) -> dict[str, Any]:
    query = design.query(chosen.size, chosen.randomizer)
    content = chosen.randomizer.content()
    ratios = {key: value for key, value in content.items() if isinstance(value, list)}
    sizes = {key: value for key, value in content.items() if isinstance(value, int) and key != "categories"}
    return {
        "query": design.question.kind,
        "levels": query.question.content().get("levels"),
        "categories": query.symbols,
        "randomizer": content["mechanism"],
        **sizes,
        **{key: value[0] / value[1] for key, value in ratios.items()},
        **{f"{key}_exact": f"{value[0]}/{value[1]}" for key, value in ratios.items()},
        "epsilon_local": chosen.epsilon_local,
        "standard_error": chosen.expected_standard_error,
        "mse": chosen.mse,
        "epsilon_upper": chosen.epsilon_upper,
    }


def _show(found: Mapping[str, Any], started: float, as_json: bool) -> None:
    from hubbub.cli.tables.printing import print_columns

    answer = {**found, "seconds": time.perf_counter() - started}
    if as_json:
        print_json(answer)
        return
    print_columns(console(), [(name, _words(name, value)) for name, value in answer.items()])


def _words(name: str, value: Any) -> str:
    if value is None:
        return MISSING.get(name, "none")
    return _rounded(name, value) if isinstance(value, float) else str(value)


def _rounded(name: str, value: float) -> str:
    """Return the number in few digits: an upper end is rounded up, a lower end down."""
    from hubbub.accountant.numbers import round_down_significant, round_up_significant

    digits = FEW_DIGITS.get(name, 8)
    if name.endswith("_upper"):
        value = round_up_significant(value, digits)
    elif name.endswith("_lower"):
        value = round_down_significant(value, digits)
    return f"{value:.{digits}g}"
