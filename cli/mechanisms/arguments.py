"""Reads mechanisms as people write them, and computes ε and δ, for `hubbub account`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from math import inf
from pathlib import Path
from typing import Any

from hubbub.accountant.bounds import BOUNDS, delta_bracket, epsilon_bracket
from hubbub.accountant.bounds.over_rounds import behind
from hubbub.accountant.brackets import DeltaBracket, EpsilonBracket
from hubbub.accountant.composition import compose, compose_delta
from hubbub.accountant.errors import AccountingError, OutsideConditions, shown
from hubbub.accountant.mechanisms import (
    GAMMA_DENOMINATOR,
    KRR,
    RAPPOR,
    AnyMechanism,
    Common,
    Gaussian,
    Generic,
    Hashed,
    Laplace,
    LocalMechanism,
    NoiseLaw,
    WithNoise,
)
from hubbub.accountant.mechanisms.noise_law import FAMILIES, PARAMETER_LIMIT
from hubbub.accountant.numbers import EPSILON_MOST, checked_reports, checked_whole, honest_reports, real
from hubbub.accountant.pairs import GaussianRound, Part
from hubbub.accountant.pairs.composition_part import NOT_COMPOSED
from hubbub.accountant.written_numbers import FORMS, exact, whole
from hubbub.cli.mechanisms.law_file import law_of, read_law
from hubbub.cli.mechanisms.named_bounds import THEOREMS, check_bound, delta_by_theorem, epsilon_by_theorem
from hubbub.cli.options.hints import meant


@dataclass(frozen=True)
class Description:
    """A mechanism as a person described it; None for what was not given.

    `gamma` is "W/4294967296" or a number; `truthful` and `other` are "3/4", "0.75" or numbers; `law` is a law file, or
    the content of one. `noise` is FAMILY:PARAMETER:REACH; see `read_noise`.
    """

    mechanism: str
    categories: int | None = None
    local_epsilon: float | None = None
    gamma: str | Fraction | None = None
    truthful: str | Fraction | None = None
    other: str | Fraction | None = None
    sigma: float | None = None
    law: Any = None
    noise: str | None = None
    cells: int | None = None
    rows: int | None = None


HASH_FUNCTIONS = 256
"""Hash functions of hashed answers if nobody says how many: as many as are planned. No bound depends on it."""

NOISE_BESIDE = ("krr", "hashed")
"""The mechanisms that noise of the shuffler is offered beside."""

LAW = "finite"
"""The mechanism that is described by its law."""

NOISE_TEXT = re.compile(r"([a-z]+):([^:]{1,80}):([^:]{1,40})")
"""Noise of the shuffler as people write it: FAMILY:PARAMETER:REACH."""

TAKES: Mapping[str, tuple[str, ...]] = {
    "krr": ("categories", "local_epsilon", "gamma", "noise"),
    "generic": ("local_epsilon",),
    "common": ("local_epsilon",),
    "rappor": ("categories", "local_epsilon", "truthful", "other"),
    "hashed": ("cells", "rows", "local_epsilon", "gamma", "noise"),
    "laplace": ("local_epsilon",),
    "gaussian": ("sigma",),
    LAW: ("law",),
}
"""The fields that describe each mechanism."""


def as_flag(name: str) -> str:
    """Return a field's name as a flag of the command line."""
    return "--" + name.replace("_", "-")


def read_local_mechanism(said: Description, spell: Callable[[str], str] = as_flag) -> LocalMechanism:
    """Return the mechanism, one with a local ε, that flags or a row of a file describe; see `read_mechanism`."""
    known = read_mechanism(said, spell)
    if isinstance(known, Gaussian):
        raise AccountingError("gaussian has no local epsilon to compose; ask about one round of it")
    return known


def read_mechanism(said: Description, spell: Callable[[str], str] = as_flag) -> AnyMechanism:
    """Return the mechanism that flags, or a row of a file, describe; `spell` names fields in errors.

    Raises:
        AccountingError: if something is missing, given twice or out of range.
    """
    if said.mechanism not in TAKES:
        known = ", ".join(TAKES)
        hint = meant(said.mechanism, list(TAKES))
        raise AccountingError(f"{spell('mechanism')} is {shown(said.mechanism)}; {hint}choose one of: {known}")
    if said.noise is not None and said.mechanism not in NOISE_BESIDE:
        raise AccountingError(
            f"{said.mechanism} takes no {spell('noise')}, as noise of the shuffler is proven beside krr and hashed "
            "only; use one of them, or leave the noise out"
        )
    if said.mechanism in ("krr", "generic", "common"):
        return _read_task_mechanism(said, spell)
    _refuse_others(said, spell)
    if said.mechanism == LAW:
        if said.law is None:
            raise AccountingError(f"{LAW} needs {spell('law')}")
        return read_law(said.law) if isinstance(said.law, Path) else law_of(said.law)
    if said.mechanism == "gaussian":
        if said.sigma is None:
            raise AccountingError(
                f"gaussian needs {spell('sigma')}, as a multiple of the width of the answers' interval"
            )
        return Gaussian(said.sigma)
    if said.mechanism == "laplace":
        if said.local_epsilon is None:
            raise AccountingError(
                f"laplace needs {spell('local_epsilon')}: the width of the answers' interval over the noise's scale"
            )
        return Laplace(said.local_epsilon)
    return _read_hashed(said, spell) if said.mechanism == "hashed" else _read_rappor(said, spell)


def _refuse_others(said: Description, spell: Callable[[str], str]) -> None:
    given = [
        each.name for each in fields(said) if each.name != "mechanism" and getattr(said, each.name) not in (None, False)
    ]
    extra = [spell(name) for name in given if name not in TAKES[said.mechanism]]
    if extra:
        takes = ", ".join(spell(name) for name in TAKES[said.mechanism])
        raise AccountingError(f"{said.mechanism} takes {takes}, not {', '.join(extra)}; leave that out")


def _read_rappor(said: Description, spell: Callable[[str], str]) -> RAPPOR:
    local, truthful, other = (spell(name) for name in ("local_epsilon", "truthful", "other"))
    if said.categories is None:
        raise AccountingError(f"rappor needs {spell('categories')}")
    kept = None if said.truthful is None else read_exact(said.truthful, truthful)
    if said.local_epsilon is not None and said.other is None:
        return RAPPOR.from_local_epsilon(said.categories, said.local_epsilon, kept)
    if said.local_epsilon is not None or kept is None or said.other is None:
        raise AccountingError(f"rappor takes {truthful} and {other}, or {local} with or without {truthful}")
    return RAPPOR(said.categories, kept, read_exact(said.other, other))


def read_exact(value: str | Fraction, name: str, forms: str = f"a number such as {FORMS}") -> Fraction:
    """Return a probability as people write it, exactly; `name` and `forms` are for errors."""
    try:
        return value if isinstance(value, Fraction) else exact(value)
    except ValueError as error:
        raise AccountingError(f"{name} is {shown(value)}; give {forms}") from error


def read_noise(text: str, name: str) -> NoiseLaw:
    """Return the law written as FAMILY:PARAMETER:REACH; its parameter is taken down to a multiple of 1/2³².

    Parameter and reach are written as people write numbers; `name` is for errors.

    Raises:
        AccountingError: for another text, an unknown family, and a number out of range.
    """
    found = NOISE_TEXT.fullmatch(text)
    try:
        if found is None:
            raise ValueError("it has three parts")
        family, parameter, reach = found[1], exact(found[2]), whole(found[3])
    except ValueError as error:
        raise AccountingError(
            f"{name} is {shown(text)}; write FAMILY:PARAMETER:REACH such as geometric:0.6065:27, with the parameter as "
            f"a number such as {FORMS} or W/{GAMMA_DENOMINATOR}, and a whole reach"
        ) from error
    # Said in the terms of the text; an unknown family and a wrong reach are refused by the law.
    limit = 1 if family == "geometric" else PARAMETER_LIMIT + Fraction(1, GAMMA_DENOMINATOR)
    if family in FAMILIES and not Fraction(1, GAMMA_DENOMINATOR) <= parameter < limit:
        most = "below 1" if family == "geometric" else f"at most {PARAMETER_LIMIT}"
        raise AccountingError(
            f"{name} is {shown(text)}, whose {FAMILIES[family]} is out of range; give one from 1/{GAMMA_DENOMINATOR} "
            f"on, and {most}"
        )
    return NoiseLaw.of(family, parameter, reach)


def _read_task_mechanism(said: Description, spell: Callable[[str], str]) -> LocalMechanism:
    return _beside_noise(_read_plain(said, spell), said, spell)


def _beside_noise(known: KRR | Hashed | Generic, said: Description, spell: Callable[[str], str]) -> LocalMechanism:
    if said.noise is None or isinstance(known, Generic):
        return known
    return WithNoise(known, read_noise(said.noise, spell("noise")))


def _read_hashed(said: Description, spell: Callable[[str], str]) -> LocalMechanism:
    if said.cells is None:
        raise AccountingError(f"hashed needs {spell('cells')}: how many values a hash has")
    _check_strength(said, spell)
    rows = HASH_FUNCTIONS if said.rows is None else said.rows
    known = (
        Hashed.from_local_epsilon(said.cells, rows, said.local_epsilon)
        if said.local_epsilon is not None
        else Hashed(said.cells, rows, _read_gamma(said.gamma or "", spell("gamma")))
    )
    return _beside_noise(known, said, spell)


def _check_strength(said: Description, spell: Callable[[str], str]) -> None:
    if (said.local_epsilon is None) == (said.gamma is None):
        raise AccountingError(
            f"give exactly one of {spell('local_epsilon')} and {spell('gamma')}; each follows from the other"
        )


def _read_plain(said: Description, spell: Callable[[str], str]) -> KRR | Generic:
    _refuse_new(said, spell)
    local, gamma, categories = (spell(name) for name in ("local_epsilon", "gamma", "categories"))
    _check_strength(said, spell)
    if said.mechanism in ("generic", "common"):
        if said.local_epsilon is None or said.categories is not None:
            raise AccountingError(f"{said.mechanism} takes {local}, and neither {gamma} nor {categories}")
        return Common(said.local_epsilon) if said.mechanism == "common" else Generic(said.local_epsilon)
    if said.categories is None:
        raise AccountingError(f"krr needs {categories}")
    if said.gamma is not None:
        return KRR(said.categories, _read_gamma(said.gamma, gamma))
    return KRR.from_local_epsilon(said.categories, said.local_epsilon or 0.0)


def _read_gamma(value: str | Fraction, name: str) -> Fraction:
    return read_exact(value, name, f"a number above 0 and at most 1 such as {FORMS}, or W/{GAMMA_DENOMINATOR}")


def _refuse_new(said: Description, spell: Callable[[str], str]) -> None:
    others = ("truthful", "other", "sigma", "law", "cells", "rows")
    given = [name for name in others if getattr(said, name) is not None]
    if given:
        raise AccountingError(
            f"{said.mechanism} takes no {spell(given[0])}; that is for another mechanism, and a law needs no mechanism"
        )


def hiding_part(
    mechanism: AnyMechanism,
    reports: int,
    honest_share: float,
    rounds: int = 1,
    dummies: int = 0,
    same: int | None = None,
    sampling_rate: Fraction | None = None,
) -> Part | GaussianRound:
    """Return rounds in which an honest person is hidden by `reports` less ⌈(1 − honest_share)·reports⌉ reports.

    With `same`, clients bring their own randomizers, and only that many of the reports are made by the victim's
    randomizer. All dishonest reports may be among those (erlingsson-2019, Cor. 9).

    Raises:
        AccountingError: if a number is out of range, nobody honest is left, or rounds of Gaussian noise would be
            composed.
    """
    hiding = checked_reports(reports) if same is None else checked_whole("same", same, 1, reports)
    people = hidden_by(hiding, reports, honest_share)
    if not isinstance(mechanism, Gaussian):
        return Part(mechanism, people, rounds, dummies, sampling_rate=sampling_rate)
    if sampling_rate is not None:
        raise OutsideConditions(NOT_COMPOSED)
    return GaussianRound(mechanism, people, rounds, dummies)


def hidden_by(hiding: int, reports: int, honest_share: float) -> int:
    """Return the fewest honest reports among `hiding` of all `reports`; AccountingError if there are none."""
    honest = honest_reports(hiding, reports, honest_share)
    if honest < 1:
        raise AccountingError(f"honest share {honest_share} of {reports} reports leaves nobody; raise one of them")
    return honest


def epsilon_of(part: Part | GaussianRound, delta: float, bound: str = "best") -> EpsilonBracket:
    """Return the ε of all rounds of `part` at `delta`; over several rounds, the pair behind `bound` is composed.

    Raises:
        AccountingError: bad values, or a bound that does not cover the mechanism.
    """
    check_bound(bound)
    if bound in THEOREMS:
        return epsilon_by_theorem(part, delta, bound, epsilon_of(part, delta))
    if isinstance(part, GaussianRound) or (part.rounds == 1 and not part.sampled):
        return epsilon_bracket(part.mechanism, part.reports, delta, bound=bound, dummies=part.dummies)
    best = compose([part], delta)
    if bound == "best":
        return best
    # The chosen bound gives the upper end only. The lower end comes from attacks and does not depend on the bound.
    asked = compose([behind(part, bound)], delta)
    source = f"{asked.source}; pair: {BOUNDS[bound].source}"
    return replace(asked, epsilon_lower=best.epsilon_lower, epsilon_local=best.epsilon_local, source=source)


def delta_of(part: Part | GaussianRound, epsilon: float, bound: str = "best") -> DeltaBracket:
    """Return the δ of all rounds of `part` at `epsilon`; see `epsilon_of`.

    It takes every ε from 0 on. δ falls as ε grows, so beyond `EPSILON_MOST` the δ there is an upper end; from the local
    ε on, δ is 0.

    Raises:
        AccountingError: bad values, or a bound that does not cover the mechanism.
    """
    check_bound(bound)
    wanted = real(epsilon)
    if not 0 <= wanted < inf:
        raise AccountingError(f"epsilon is {shown(epsilon)}; give a finite number of at least 0, such as 0.5")
    if wanted > EPSILON_MOST:
        return _delta_beyond(delta_of(part, EPSILON_MOST, bound), wanted)
    if bound in THEOREMS:
        return delta_by_theorem(part, bound, delta_of(part, epsilon))
    if isinstance(part, GaussianRound) or (part.rounds == 1 and not part.sampled):
        return delta_bracket(part.mechanism, part.reports, epsilon, bound=bound, dummies=part.dummies)
    best = compose_delta([part], epsilon)
    if bound == "best":
        return best
    asked = compose_delta([behind(part, bound)], epsilon)
    source = f"{asked.source}; pair: {BOUNDS[bound].source}"
    return replace(asked, delta_lower=best.delta_lower, epsilon_local=best.epsilon_local, source=source)


def _delta_beyond(found: DeltaBracket, epsilon: float) -> DeltaBracket:
    """Return the bracket at an ε above that of `found`."""
    if found.epsilon_local is not None and epsilon >= found.epsilon_local:
        return replace(found, delta_upper=0.0, delta_lower=0.0, epsilon=epsilon, numerical_slack=0.0)
    lower = None if found.delta_lower is None else 0.0
    return replace(found, delta_lower=lower, epsilon=epsilon, numerical_slack=1.0 if found.delta_upper > 0 else 0.0)
