"""`verify --rigorous` on certificates: what is proven, what is refused, and what is labeled as not proven."""

from __future__ import annotations

import copy
from fractions import Fraction
from itertools import islice
from typing import Any

import pytest

from hubbub.accountant.errors import CertificateError
from hubbub.accountant.numbers import honest_reports
from hubbub.accountant.rigorous.proof import Proof
from hubbub.accountant.rigorous.statement import Claim, honest
from hubbub.protos.task.task import Privacy
from hubbub.verification.certificate import Pins, Verified, verify
from hubbub.verification.proof import CLAIMS_OF_QUERY, Finding, marks, prove_certificate, proven_content, query_marks
from support.certificates import content_of, counts, encode
from support.samples import Parties, sample_task
from support.thoroughness import usually

PARTIES = Parties.generate()
TASK = sample_task(PARTIES, minimum_reports=100)
CONTENT: dict[str, Any]
SHARED = sample_task(
    PARTIES, minimum_reports=100, privacy=Privacy(10.0, 1e-2, 20.0, 0.9, dummies=40), queries=TASK.queries[:1]
)


@pytest.fixture(scope="module", autouse=True)
def _certified() -> None:
    """Make the certificate when the first test runs, not when tests are collected."""
    global CONTENT
    CONTENT = content_of(TASK, PARTIES, [counts(TASK, 2, 130, left_out=4)])


def proven(content: dict[str, Any]) -> list[Finding]:
    return list(prove_certificate(verify(encode(content, PARTIES), Pins()), lambda _: None))


MEMBERS = ("epsilon_local", "epsilon_upper", "epsilon_upper_alone")


def lying(content: dict[str, Any]) -> list[Finding]:
    """Prove the queries of a content that `verify` was not asked about: what if its check were wrong?"""
    findings = prove_certificate(Verified(TASK, content, (), Pins(), ()), lambda _: None)
    return list(islice(findings, CLAIMS_OF_QUERY * len(TASK.queries)))


def test_every_number_of_a_sound_certificate_is_proven_or_labeled() -> None:
    # Of ten people, no composed number is proven, which is found soon; of a hundred, all are.
    people = usually(10, 100)
    task = sample_task(PARTIES, minimum_reports=people)
    rounds = [counts(task, 0, people * 6 // 5), counts(task, 2, people * 13 // 10, left_out=people // 25)]
    findings = proven(content_of(task, PARTIES, rounds))
    assert {each.proof is None for each in findings} == ({False, True} if people == 10 else {False})
    assert [(each.claim.where, each.claim.member) for each in findings] == [
        *((query.name, member) for query in TASK.queries for member in MEMBERS),
        *(("round_total", member) for member in MEMBERS),
        *(("all_rounds", member) for member in MEMBERS),
        ("all_rounds", "epsilon_upper_at_minimum"),
    ]
    assert not any(each.fails for each in findings)
    # Of a query, every number is required, the ε of this person alone too; of totals none is.
    of_queries = CLAIMS_OF_QUERY * len(TASK.queries)
    assert [each.claim.required for each in findings] == [place < of_queries for place in range(len(findings))]
    assert all(each.proof for each in findings if each.claim.required)
    for each in findings:
        document, text = each.as_json(), each.as_text()
        assert document["proven"] == (each.proof is not None) == text.startswith("proven: ")
        if each.proof:
            assert each.claim.stated <= document["epsilon_proven"] <= each.claim.stated * (1.01 + 1e-12)
        else:
            assert "it was checked in floating point only" in text


def test_dummies_withheld_queries_and_an_honest_share_are_proven() -> None:
    content = content_of(SHARED, PARTIES, [counts(SHARED, 0, 110, left_out=20)])
    assert content["queries"][0]["state"] == "withheld"
    findings = proven(content)
    assert all(each.proof for each in findings)
    assert content["queries"][0]["honest_reports"] == 79


def test_an_epsilon_that_is_too_small_is_refuted_and_named() -> None:
    content = copy.deepcopy(CONTENT)
    content["queries"][1]["epsilon_upper"] *= 0.98
    found = {(each.claim.where, each.claim.member): each for each in lying(content) if each.fails}
    assert list(found) == [(TASK.queries[1].name, "epsilon_upper")]
    text = next(iter(found.values())).as_text()
    assert text.startswith(f"refuted: {TASK.queries[1].name}, epsilon_upper = ")
    assert "delta is between" in text


def test_a_local_epsilon_that_is_too_small_is_refuted() -> None:
    content = copy.deepcopy(CONTENT)
    content["queries"][0]["epsilon_local"] *= 0.9999
    assert [each.claim.member for each in lying(content) if each.fails] == ["epsilon_local"]


def test_honest_reports_are_counted_anew() -> None:
    content = copy.deepcopy(CONTENT)
    content["queries"][0]["honest_reports"] += 1
    with pytest.raises(CertificateError, match="honest_reports is 127; it must be 126"):
        lying(content)
    for valid, reports, share in [(90, 100, 0.95), (5, 100, 0.9), (10**6, 10**6, 0.999999), (7, 7, 1.0), (7, 9, 0.3)]:
        assert honest(valid, reports, share) == honest_reports(valid, reports, share)


def finding(where: str, member: str, stated: float, proven: Fraction | None) -> Finding:
    """A finding that was, or was not, proven at 0.9463 where 0.9369 was stated."""
    proof = None if proven is None else Proof(proven, Fraction(1, 10**6), Fraction(str(stated)), "2rr", 7)
    claim = Claim(where, member, stated, False, lambda: Proof(Fraction(1), Fraction(0), Fraction(1), "2rr", 7))
    return Finding(claim, proof, None if proof else "it takes too long", False, 0.1)


def test_what_was_proven_comes_before_what_was_stated() -> None:
    text = finding("carrier", "epsilon_upper", 0.9369, Fraction(9463, 10000)).as_text()
    assert text.startswith("proven: carrier, epsilon_upper <= 0.9463 at delta 1e-06 (stated: 0.9369; 2rr")
    assert text.endswith("; more than stated, as the proof's intervals are too wide to decide the stated number itself")
    same = finding("carrier", "epsilon_upper", 0.9369, Fraction(9369, 10000)).as_text()
    assert "epsilon_upper <= 0.9369 " in same
    assert "more than stated" not in same


def test_numbers_of_a_document_are_the_proven_ones_with_the_stated_ones_beside_them() -> None:
    """The query bears the name of a total: claims are told apart by their place."""
    asked = {"name": "all_rounds", "epsilon_local": 4.0, "epsilon_upper": 0.9369, "epsilon_upper_alone": 3.9}
    content = {
        "queries": [asked],
        "round_total": {
            "epsilon_local": 4.0,
            "epsilon_upper": 0.9369,
            "bound": "2rr",
            "epsilon_upper_alone": 3.9,
            "epsilon_upper_if_minimum_valid": 1.1,
        },
        "all_rounds": {"epsilon_local": 8.0, "epsilon_upper": 1.5, "epsilon_upper_at_minimum": None},
    }
    findings = [
        finding("all_rounds", "epsilon_local", 4.0, Fraction(4)),
        finding("all_rounds", "epsilon_upper", 0.9369, Fraction(9463, 10000)),
        finding("all_rounds", "epsilon_upper_alone", 3.9, Fraction(39, 10)),
        finding("round_total", "epsilon_local", 4.0, Fraction(4)),
        finding("round_total", "epsilon_upper", 0.9369, Fraction(9463, 10000)),
        finding("round_total", "epsilon_upper_alone", 3.9, Fraction(39, 10)),
        finding("all_rounds", "epsilon_local", 8.0, Fraction(8)),
        finding("all_rounds", "epsilon_upper", 1.5, None),
    ]
    assert marks(content, findings) == {
        ("round_total", "epsilon_upper"): "proven only as ε ≤ 0.9463",
        ("round_total", "epsilon_upper_if_minimum_valid"): "checked, not proven",
        ("all_rounds", "epsilon_upper"): "checked, not proven",
    }
    assert query_marks(content, findings, "epsilon_upper") == ["proven only as ε ≤ 0.9463"]
    assert query_marks(content, findings, "epsilon_local") == [""]
    found = proven_content(content, findings)
    (query,), total, every = found["queries"], found["round_total"], found["all_rounds"]
    assert 0.9463 <= query["epsilon_upper"] == total["epsilon_upper"] < 0.94631
    assert query["epsilon_upper_stated"] == total["epsilon_upper_stated"] == 0.9369
    assert (every["epsilon_upper"], every["epsilon_upper_stated"], every["epsilon_local"]) == (None, 1.5, 8.0)
    assert every["epsilon_upper_at_minimum"] is None
    assert total["bound"] == "2rr"
    assert 3.9 <= query["epsilon_upper_alone"] == total["epsilon_upper_alone"] < 3.9 + 1e-12
    assert query["epsilon_upper_alone_stated"] == 3.9
    # Nothing claims this, so it must not stand beside proven numbers as if it did.
    member = "epsilon_upper_if_minimum_valid"
    assert (total[member], total[f"{member}_stated"]) == (None, 1.1)
