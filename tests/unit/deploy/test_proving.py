"""`verify --rigorous` on certificates: what is proven, what is refused, and what is labelled as not proven."""

from __future__ import annotations

import copy
from itertools import islice
from typing import Any

import pytest

from hubbub.accountant.errors import CertificateError
from hubbub.accountant.numbers import honest_reports
from hubbub.accountant.rigorous.statement import honest
from hubbub.deploy.proving import Finding, prove_certificate
from hubbub.deploy.verification import Pins, Verified, verify
from hubbub.protos.task import Privacy
from support.certificates import content_of, counts, encode
from support.samples import Parties, sample_task

PARTIES = Parties.generate()
TASK = sample_task(PARTIES, minimum_reports=100)
CONTENT = content_of(TASK, PARTIES, [counts(TASK, 0, 120), counts(TASK, 2, 130, left_out=4)])
SHARED = sample_task(
    PARTIES, minimum_reports=100, privacy=Privacy(10.0, 1e-2, 20.0, 0.9, dummies=40), queries=TASK.queries[:1]
)


def proven(content: dict[str, Any]) -> list[Finding]:
    return list(prove_certificate(verify(encode(content, PARTIES), Pins()), lambda _: None))


def lying(content: dict[str, Any]) -> list[Finding]:
    """Prove the queries of a content that `verify` was not asked about: what if its check were wrong?"""
    findings = prove_certificate(Verified(TASK, content, (), False), lambda _: None)
    return list(islice(findings, 2 * len(TASK.queries)))


@pytest.mark.slow
def test_every_number_of_a_sound_certificate_is_proven_or_labelled() -> None:
    findings = proven(CONTENT)
    assert [(each.claim.where, each.claim.member) for each in findings] == [
        *((query.name, member) for query in TASK.queries for member in ("epsilon_local", "epsilon_upper")),
        ("round_total", "epsilon_local"),
        ("round_total", "epsilon_upper"),
        ("all_rounds", "epsilon_local"),
        ("all_rounds", "epsilon_upper"),
        ("all_rounds", "epsilon_upper_at_minimum"),
    ]
    assert not any(each.fails for each in findings)
    assert all(each.proof for each in findings if each.claim.required)
    for each in findings:
        document, text = each.as_json(), each.as_text()
        assert document["proven"] == (each.proof is not None) == text.startswith("proven: ")
        if each.proof:
            assert each.claim.stated <= document["epsilon_proven"] <= each.claim.stated * (1.01 + 1e-12)
        else:
            assert "checked by floating point as before" in text


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
    assert text.startswith(f"not true: {TASK.queries[1].name}, epsilon_upper = ")
    assert "delta is between" in text


def test_a_local_epsilon_that_is_too_small_is_refuted() -> None:
    content = copy.deepcopy(CONTENT)
    content["queries"][0]["epsilon_local"] *= 0.9999
    assert [each.claim.member for each in lying(content) if each.fails] == ["epsilon_local"]


def test_honest_reports_are_counted_anew() -> None:
    content = copy.deepcopy(CONTENT)
    content["queries"][0]["honest_reports"] += 1
    with pytest.raises(CertificateError, match="honest_reports is 127, it must be 126"):
        lying(content)
    for valid, reports, share in [(90, 100, 0.95), (5, 100, 0.9), (10**6, 10**6, 0.999999), (7, 7, 1.0), (7, 9, 0.3)]:
        assert honest(valid, reports, share) == honest_reports(valid, reports, share)
