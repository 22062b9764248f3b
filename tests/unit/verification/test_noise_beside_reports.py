"""A certificate beside noise of the shuffler: what it states, and what no false sum or law gets past."""

from __future__ import annotations

import copy
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from hubbub.accountant.bounds import epsilon_upper
from hubbub.accountant.certificate.ladder import ALONE, IF_MINIMUM_VALID
from hubbub.accountant.composition import compose_upper
from hubbub.accountant.mechanisms import TreeNodes, one_round, paid_rounds
from hubbub.accountant.mechanisms.longitudinal import Horizon
from hubbub.accountant.mechanisms.noise_law import NoiseLaw
from hubbub.accountant.pairs import Part
from hubbub.cli.tables.ladder import ladder_lines
from hubbub.protos.errors import TaskError
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.signed_task import read_task
from hubbub.protos.task.task import Privacy, task_content
from hubbub.queries.longitudinal.question import Longitudinal
from hubbub.queries.longitudinal.tree import SendingNodes
from hubbub.queries.query import Query
from hubbub.queries.questions.histogram import Histogram
from hubbub.verification.certificate import Pins, VerificationError, verify
from support.certificates import batch_records, content_of, counts, encode
from support.krr_queries import krr_query
from support.messages import OTHER_DUMMIES
from support.samples import START, Parties, sample_task

PARTIES = Parties.generate()
LAW = NoiseLaw.of("geometric", Fraction(3, 5), 12)
QUERY = krr_query(Histogram("carrier", ("AA", "B6", "UA")), 2**26)
PRIVACY = Privacy(10.0, 1e-2, 20.0)
NOISY = sample_task(PARTIES, minimum_reports=100, privacy=PRIVACY, queries=(replace(QUERY, noise=LAW),))
SUM = 37


def certified(noise: int = SUM) -> dict[str, Any]:
    round_ = counts(NOISY, 0, 120)
    return content_of(NOISY, PARTIES, [replace(round_, queries=(replace(round_.queries[0], noise=noise),))])


def test_the_epsilon_beside_noise_is_that_of_one_honest_report() -> None:
    content = certified()
    (query,) = verify(encode(content, PARTIES), Pins()).content["queries"]
    assert (query["mechanism"], query["bound"], query["dummies"]) == ("with-noise", "noise", SUM)
    assert query["noise"] == LAW.content()
    assert query["epsilon_upper"] == query[ALONE] == query[IF_MINIMUM_VALID] < query["epsilon_local"]


def test_a_sum_that_the_record_does_not_state_is_refused() -> None:
    content = certified()
    content["queries"][0]["dummies"] = SUM + 1
    with pytest.raises(VerificationError, match="dummies is not the 37 that the shufflers' records attest"):
        verify(encode(content, PARTIES), Pins())


def test_a_sum_that_the_law_cannot_add_up_to_is_refused() -> None:
    symbols, most = NOISY.queries[0].symbols, NOISY.queries[0].symbols * LAW.largest
    content = certified(most + 1)
    with pytest.raises(VerificationError, match=f"{most + 1} {OTHER_DUMMIES} from 0 to {most}"):
        verify(encode(content, PARTIES), Pins())
    assert symbols > 2


def test_a_task_with_noise_beside_dummies_is_refused() -> None:
    """The shuffler draws noise in place of dummies, so an ε that counts the dummies would be far too small."""
    with pytest.raises(TaskError, match="5000 uniform dummies, and noise for carrier"):
        replace(NOISY, privacy=replace(PRIVACY, dummies=5000))
    written = task_content(NOISY)
    written["privacy"]["dummies"] = 5000
    with pytest.raises(TaskError, match="leave the dummies out"):
        read_task(written)


@pytest.mark.parametrize("member", ["epsilon_upper", ALONE, IF_MINIMUM_VALID])
def test_an_epsilon_below_that_of_the_noise_is_refused(member: str) -> None:
    content = certified()
    stated = content["queries"][0][member]
    content["queries"][0][member] = stated * 0.99
    with pytest.raises(VerificationError):
        verify(encode(content, PARTIES), Pins())


@pytest.mark.parametrize("bound", ["blanket", "local"])
def test_an_epsilon_of_the_noise_does_not_rest_on_another_bound(bound: str) -> None:
    content = certified()
    content["queries"][0]["bound"] = bound
    with pytest.raises(VerificationError, match=f"carrier: .*bound {bound}"):
        verify(encode(content, PARTIES), Pins())


def test_less_noise_than_the_task_s_is_no_law_of_it() -> None:
    content = certified()
    weaker = NoiseLaw("geometric", LAW.parameter - 1, LAW.reach)
    content["queries"][0]["noise"] = weaker.content()
    with pytest.raises(VerificationError, match="noise is"):
        verify(encode(content, PARTIES), Pins())


def test_a_task_without_noise_keeps_its_dummies() -> None:
    plain = replace(NOISY, queries=(replace(NOISY.queries[0], noise=None),))
    content = content_of(plain, PARTIES, [counts(plain, 0, 120)])
    lie = copy.deepcopy(content)
    records = batch_records(plain, PARTIES, counts(plain, 0, 120), dummies=SUM)
    lie["batches"] = [record.as_json() for record in records]
    with pytest.raises(VerificationError, match=f"the batch has 37 {OTHER_DUMMIES} 0 in every batch"):
        verify(encode(lie, PARTIES), Pins())


def test_people_read_once_who_must_be_honest() -> None:
    content = verify(encode(certified(), PARTIES), Pins()).content
    epsilon, local = (content["round_total"][name] for name in ("epsilon_upper", "epsilon_local"))
    heading, *lines = ladder_lines(content)
    assert heading == "privacy of each person whose device is honest, in this round, at δ = 0.01:"
    liars = "everybody else may lie and work together, the analyzer too"
    alone = f"if the shuffler is honest; {liars}: the shuffler's noise hides each person"
    together = "everybody else may work together, the shuffler and the analyzer too"
    assert lines == [
        f"  ε ≤ {epsilon:.6g} {alone} (an attack reaches {content['round_total']['epsilon_lower_alone']:.6g})",
        f"  ε ≤ {local:.6g} if only the person's own device is honest; {together}",
    ]


HORIZON = Horizon(4, 2)
NODES = SendingNodes(TreeNodes(HORIZON.periods, HORIZON.changes, 2**28, 2**30))
OVER_TIME = sample_task(
    PARTIES,
    minimum_reports=100,
    privacy=replace(PRIVACY, epsilon_total=100.0),
    schedule=Schedule(START, length=3600, grace=60, rounds=HORIZON.periods),
    queries=(
        Query(Longitudinal("active", HORIZON.changes, epsilon_local=100.0).frozen("tree", HORIZON.periods), NODES, LAW),
    ),
)
"""A tree's nodes: of −1 and of +1 a drawn number, and of 0 the rest of 4·reach."""


def over_time(rounds: int, noise: int = 48) -> dict[str, Any]:
    history = [counts(OVER_TIME, number, 120) for number in range(rounds)]
    drawn = [replace(each, queries=tuple(replace(query, noise=noise) for query in each.queries)) for each in history]
    return content_of(OVER_TIME, PARTIES, drawn)


def test_a_tree_beside_noise_is_certified_by_units_of_one_person_alone() -> None:
    content = verify(encode(over_time(2), PARTIES), Pins()).content
    (query,) = content["queries"]
    beside = OVER_TIME.queries[0].mechanism
    assert (query["mechanism"], query["randomizer"]["mechanism"], query["dummies"]) == ("with-noise", "tree-nodes", 48)
    assert (query["epsilon_lower"], query["bound"]) == (None, "noise")
    assert query[ALONE] == pytest.approx(epsilon_upper(one_round(beside), 1, 1e-2), rel=1e-5)
    # Two rounds cost four units here, of the five that all four may cost.
    units = paid_rounds(beside, 2)
    alone = compose_upper([Part(beside, 1, units)], 1e-2)
    assert content["all_rounds"][ALONE] == pytest.approx(alone, rel=1e-5)
    assert content["all_rounds"]["epsilon_upper"] <= content["all_rounds"][ALONE]
    assert content["all_rounds"]["epsilon_local"] == pytest.approx(units * beside.epsilon_local, rel=1e-5)


def test_a_trees_fixed_number_of_dummies_is_checked() -> None:
    with pytest.raises(VerificationError, match=f"47 {OTHER_DUMMIES} 48 in every batch"):
        verify(encode(over_time(1, 47), PARTIES), Pins())


@pytest.mark.parametrize(("where", "member"), [("all_rounds", ALONE), ("horizon", "epsilon_upper")])
def test_an_epsilon_of_too_few_units_is_refused(where: str, member: str) -> None:
    content = over_time(2)
    content[where][member] *= 0.99
    with pytest.raises(VerificationError):
        verify(encode(content, PARTIES), Pins())
