"""Says in one sentence each who must be honest for which ε of a certificate: its ladder.

A certificate states up to five ε of the same people. The first needs most parties to be honest, and is the smallest.
Each later one believes fewer parties, and is never smaller. Every page, table and certificate has the sentences from
here:

- `epsilon_upper`: everyone is honest;
- `epsilon_upper_at_minimum`: everyone is, but earlier results may change how many people answer;
- `epsilon_upper_if_minimum_valid`: the analyzer may count falsely, if enough reports are valid all the same;
- `epsilon_upper_alone`: only this person and one shuffler are honest;
- `epsilon_local`: only this person's device is honest.

Beside each of them but the last, a certificate states the ε that a known attack reaches under the same honesty
(`lower_of`): no smaller ε could be proven. ε_local is reached by whoever reads the device's reports.

With several shufflers in a chain, the sentences name which of them must be honest: which coalition of the others
leaves which ε. docs/explanation/threat-model.md has the argument for each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from hubbub.accountant.certificate.terms import Terms
from hubbub.accountant.mechanisms import LocalMechanism, Sequence, WithNoise

ALONE, IF_MINIMUM_VALID = "epsilon_upper_alone", "epsilon_upper_if_minimum_valid"
"""The ε if the counts of valid reports are false, stated next to each `epsilon_upper` (`certificate.alone`)."""

AT_MINIMUM = "epsilon_upper_at_minimum"
"""The ε of all rounds if each is counted at the minimum, which was fixed beforehand."""

RUNGS = ("epsilon_upper", AT_MINIMUM, IF_MINIMUM_VALID, ALONE, "epsilon_local")
"""The members with an ε that is an upper bound, from the most honest parties to the fewest."""


def lower_of(member: str) -> str:
    """Return the name of the member beside an upper bound on ε: what a known attack reaches under the same honesty."""
    return member.replace("upper", "lower")


@dataclass(frozen=True)
class Rung:
    """One step of a ladder: a member of a certificate, its ε, and who must be honest for it, in words.

    `lower` is the ε that a known attack reaches; None if none is known, and of ε_local.
    """

    member: str
    epsilon: float
    words: str
    lower: float | None = None

    @property
    def sentence(self) -> str:
        """The rung as people read it."""
        return self.marked("")

    def marked(self, mark: str) -> str:
        """Return the sentence with words in brackets behind the ε, if there are any."""
        return f"ε ≤ {self.epsilon:.6g} {f'({mark}) ' if mark else ''}{self.words}{self._attack}"

    @property
    def _attack(self) -> str:
        if lower_of(self.member) == self.member:
            return ""
        return " (no attack on it is known)" if self.lower is None else f" (an attack reaches {self.lower:.6g})"

    def as_json(self) -> dict[str, Any]:
        """Return the rung as JSON members."""
        return {"member": self.member, "epsilon": self.epsilon, "epsilon_lower": self.lower, "words": self.words}


@dataclass(frozen=True)
class Ladder:
    """The rungs of one object of a certificate: it `covers` a query (with its name), or is named as its member."""

    covers: str
    query: str | None
    rungs: tuple[Rung, ...]

    def as_json(self) -> list[dict[str, Any]]:
        """Return a row for each rung, as `hubbub verify --json` shows them."""
        return [{"covers": self.covers, "query": self.query, **rung.as_json()} for rung in self.rungs]


def ladders(content: Mapping[str, Any]) -> tuple[Ladder, ...]:
    """Return the ladders of a certificate: of each query, of the round, of all rounds so far, and of the horizon."""
    words = content["ladder"]
    queries = [Ladder("query", each["name"], ladder(each, words)) for each in content["queries"]]
    totals = [name for name in ("round_total", "all_rounds", "horizon") if name in content]
    return (*queries, *(Ladder(name, None, ladder(content[name], words)) for name in totals))


def ladders_of_people(content: Mapping[str, Any]) -> Iterator[tuple[str, Ladder]]:
    """Yield what people give in all: in the round, in all rounds so far if there are several, and in the whole task.

    Each comes with what it is about, in words. `content` is that of a certificate or a simulation.
    """
    rounds = len(content["all_rounds"]["history"])
    for each in ladders(content):
        if each.query is None and (rounds > 1 or each.covers != "all_rounds"):
            yield _over(each, content), each


def _over(shown: Ladder, content: Mapping[str, Any]) -> str:
    if shown.covers == "round_total":
        return "in this round"
    if shown.covers == "all_rounds":
        return f"over all {len(content['all_rounds']['history'])} rounds so far"
    whole = content["horizon"]
    if whole["epsilon_upper"] is None:
        return f"over all {whole['rounds']} rounds of the task, as a batch was below the minimum"
    return f"over all {whole['rounds']} rounds of the task, at the minimum"


def rows_of(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return all rungs of all ladders of a certificate as rows of JSON."""
    return [row for each in ladders(content) for row in each.as_json()]


def ladder(stated: Mapping[str, Any], words: Mapping[str, str]) -> tuple[Rung, ...]:
    """Return the rungs of one object of a certificate, in the words of its member `ladder`.

    `stated` is one of `queries`, `round_total`, `all_rounds` or `horizon`. A rung is left out if a later one, which
    believes fewer parties, has no larger ε.
    """
    rungs: list[Rung] = []
    for member in reversed(RUNGS):
        epsilon = stated.get(member) if member in words else None
        if epsilon is not None and (not rungs or epsilon < rungs[-1].epsilon):
            # ε_local has no member of an attack beside it.
            lower = None if lower_of(member) == member else stated.get(lower_of(member))
            rungs.append(Rung(member, epsilon, words[member], lower))
    return tuple(reversed(rungs))


def ladder_words(terms: Terms, mechanisms: Mapping[str, LocalMechanism], rounds: int) -> dict[str, str]:
    """Return a certificate's member `ladder`: for each rung who must be honest, in words.

    Args:
        terms: the task's terms.
        mechanisms: the mechanism of each query, by its name.
        rounds: how many rounds the certificate covers. Only over several can earlier results change later ones.
    """
    shuffler, people, needs = _shuffler(terms), _people(terms), _needs(terms, mechanisms)
    services = f"{shuffler}, the analyzer and {people}"
    fixed = ["earlier results must not change how many people answer"] if rounds > 1 else []
    # At an honest share of 1 it counts exactly the minimum, which was fixed beforehand whatever comes.
    came = fixed if terms.honest_share < 1 else []
    free = f"each batch counts as {terms.minimum_reports:,}, so earlier results may change how many people answer"
    valid = f"at least {terms.minimum_reports:,} reports of each batch are valid"
    hidden = f"everybody else may lie and work together, the analyzer too{_hiding(terms, mechanisms)}"
    together = f"everybody else may work together, {_services(terms)} too"
    return {
        "epsilon_upper": _sentence(f"if {services} are honest", *needs, *fixed),
        **({AT_MINIMUM: _sentence(f"if {services} are honest", *needs, free)} if rounds > 1 else {}),
        IF_MINIMUM_VALID: _sentence(
            f"if {shuffler} and {people} are honest, and {valid}", "the analyzer may miscount", *needs, *came
        ),
        ALONE: _sentence(f"if {shuffler} is honest", hidden),
        "epsilon_local": _sentence("if only the person's own device is honest", together),
    }


def _sentence(*parts: str) -> str:
    return "; ".join(parts)


def _first_only(terms: Terms) -> bool:
    """Whether the first shuffler must be honest: uniform dummies are its own, and it knows which they are.

    Noise is added by every shuffler, so that of any honest one is enough.
    """
    return terms.shufflers > 1 and terms.dummies > 0


def _shuffler(terms: Terms) -> str:
    """Return which shuffler must be honest so that the reports of others, or what it adds, hide a person."""
    if terms.shufflers == 1:
        return "the shuffler"
    return "the first shuffler" if _first_only(terms) else f"one of the {terms.shufflers} shufflers"


def _services(terms: Terms) -> str:
    return (
        "the shuffler and the analyzer" if terms.shufflers == 1 else f"all {terms.shufflers} shufflers and the analyzer"
    )


def _people(terms: Terms) -> str:
    if terms.honest_share == 1:
        return "everyone who answers"
    # As written: a share just below 1 is not rounded up to it.
    return f"the people behind {(100 * Decimal(repr(terms.honest_share))).normalize():f} % of the reports"


def _needs(terms: Terms, mechanisms: Mapping[str, LocalMechanism]) -> list[str]:
    """Return what the rungs that count on other people need besides."""
    needs = []
    if terms.assumed:
        needs.append("nobody checked who submitted, so that is assumed")
    if terms.shufflers > 1 and not _first_only(terms):
        needs.append("the shufflers before the honest one must pass on all reports, and the first must make none up")
    if any(isinstance(each, Sequence) for each in mechanisms.values()):
        needs.append("as many people must answer every round as the task states")
    return needs


def _hiding(terms: Terms, mechanisms: Mapping[str, LocalMechanism]) -> str:
    """Return what an honest shuffler adds that hides a person, if it does, and for which queries unless for all."""
    noisy = [name for name, each in mechanisms.items() if isinstance(each, WithNoise)]
    hidden = noisy or [name for name, each in mechanisms.items() if terms.uniform_dummies(each)]
    if not hidden:
        return ""
    honest = "the honest shuffler" if terms.shufflers > 1 and not _first_only(terms) else _shuffler(terms)
    added = f"{honest}'s {'noise hides' if noisy else 'dummies hide'}"
    return (
        f": {added} each person" if len(hidden) == len(mechanisms) else f": {added} the answers to {', '.join(hidden)}"
    )
