"""A certificate states its mechanism in the mechanism's own form, whichever it is."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from hubbub.accountant.certificate.check import check_statement
from hubbub.accountant.certificate.ladder import ALONE, IF_MINIMUM_VALID, lower_of
from hubbub.accountant.certificate.members import QUERY_MEMBERS
from hubbub.accountant.certificate.minimum import check_minimum
from hubbub.accountant.certificate.statement import statement
from hubbub.accountant.certificate.terms import QueryCount, RoundCounts, Terms
from hubbub.accountant.errors import AccountingError, CertificateError
from hubbub.accountant.mechanisms import KRR, RAPPOR, Generic, Laplace, LocalMechanism, mechanism_members

pytestmark = pytest.mark.usefixtures("composed_once")

TERMS = Terms(3.0, 1e-6, 20.0, 0.9, 1000)
UNARY = RAPPOR.from_numerators(5, 3 * 2**30, 2**30)

STATED = {
    "honest_reports": 980,
    "reports": 1200,
    "valid": 1100,
    "bound": "blanket",
    "categories": 4,
    "dummies": 0,
    "epsilon_local": 2.56495,
    "epsilon_lower": 0.562672,
    "epsilon_upper": 0.563325,
    "gamma": [1073741824, 4294967296],
    "left_out": {"x": 100},
    "mechanism": "krr",
    "name": "a",
    "state": "published",
}
"""A query of a certificate, without what rests on the analyzer's claim."""


def made(mechanism: LocalMechanism, terms: Terms = TERMS, rounds: int = 2) -> dict[str, Any]:
    """A statement over two rounds, as it reads back from JSON."""
    counts = (QueryCount("a", mechanism, 1200, 1100, {"x": 100}),)
    history = [RoundCounts(number, counts) for number in range(rounds)]
    return {**json.loads(json.dumps(statement(terms, history))), "round": rounds - 1}


def test_krr_is_stated_so() -> None:
    (query,) = made(KRR.from_numerator(4, 2**30))["queries"]
    assert query.keys() - STATED.keys() == {
        each for name in (ALONE, IF_MINIMUM_VALID) for each in (name, lower_of(name))
    }
    assert {name: query[name] for name in STATED} == STATED


@pytest.mark.sampled("mechanism1", "mechanism2")
@pytest.mark.parametrize("mechanism", [UNARY, Generic(0.7), Laplace(1.0)])
def test_any_mechanism_with_a_form_is_stated_in_it_and_holds(mechanism: LocalMechanism) -> None:
    content = made(mechanism, rounds=2 if mechanism == UNARY else 1)
    (query,) = content["queries"]
    assert {name: query[name] for name in mechanism.content()} == mechanism.content()
    assert 0 < query["epsilon_upper"] < query["epsilon_local"]
    check_statement(TERMS, [("a", mechanism)], content)


# tests/oracle/test_unary_dummies_brute_force.py has what a dummy is worth, test_certificate.py statements with
# dummies.
@pytest.mark.exhaustive
def test_dummies_beside_unary_reports_hold_too() -> None:
    terms = Terms(3.0, 1e-6, 20.0, 0.9, 1000, dummies=500)
    check_minimum(terms, [UNARY])
    content = made(UNARY, terms)
    assert content["queries"][0]["epsilon_upper"] < made(UNARY)["queries"][0]["epsilon_upper"]
    check_statement(terms, [("a", UNARY)], content)


@pytest.mark.sampled("epsilon", "categories", "mechanism", "gamma", "other", "lie0", "lie1")
@pytest.mark.parametrize(
    ("member", "lie"),
    [
        ("truthful", [2**31, 2**32]),
        ("truthful", [3, 4]),
        ("truthful", [3.0 * 2**30, 2**32]),
        ("other", [2**29, 2**32]),
        ("categories", 6),
        ("categories", 5.0),
        ("mechanism", "krr"),
        ("mechanism", "hashed"),
        ("mechanism", ["unary"]),
        ("gamma", [2**30, 2**32]),
        ("epsilon_upper", 0.1),
        ("epsilon_lower", 5.0),
        ("epsilon_local", 2.0),
    ],
)
def test_a_lie_about_unary_encoding_is_refused(member: str, lie: object) -> None:
    content = made(UNARY)
    content["queries"][0][member] = lie
    with pytest.raises(CertificateError):
        check_statement(TERMS, [("a", UNARY)], content)


def test_the_members_of_another_mechanism_are_refused() -> None:
    """A certificate of kRR does not hold for a task that asked for unary encoding, nor the other way round."""
    krr = KRR.from_numerator(5, 2**30)
    for stated, asked in ((krr, UNARY), (UNARY, krr), (Generic(0.5), Generic(0.6))):
        with pytest.raises(CertificateError):
            check_statement(TERMS, [("a", asked)], made(stated, rounds=1))


def test_an_unknown_mechanism_is_named() -> None:
    content = copy.deepcopy(made(UNARY))
    content["queries"][0]["mechanism"] = "olh"
    with pytest.raises(CertificateError, match="mechanism is 'olh'; give one of krr, unary"):
        check_statement(TERMS, [("a", UNARY)], content)


@pytest.mark.parametrize("kind", ["krr", "unary", "generic", "laplace"])
def test_no_member_of_a_mechanism_hides_one_of_the_certificate(kind: str) -> None:
    assert set(mechanism_members(kind)) & set(QUERY_MEMBERS) == set()


def test_a_mechanism_without_a_written_form_is_not_certified() -> None:
    with pytest.raises(AccountingError, match="not a multiple"):
        made(KRR.from_local_epsilon(3, 1.0))
