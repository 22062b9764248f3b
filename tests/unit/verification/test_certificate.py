"""A sound certificate holds, and whatever is changed in it is named."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hubbub.cli.tables.ladder import ladder_lines
from hubbub.protos.identity.documents import canonical
from hubbub.protos.records.batch import BatchRecord
from hubbub.protos.task.admission import ENROLLED, OPEN, AdmissionPolicy
from hubbub.protos.task.task import Privacy
from hubbub.verification.certificate import NotACertificate, Pins, VerificationError, stated, verify
from support.certificates import batch_records, content_of, counts, encode
from support.messages import OTHER_DUMMIES
from support.samples import Parties, sample_task, signed

PARTIES = Parties.generate()
TASK = sample_task(PARTIES, minimum_reports=100)
HISTORY = [counts(TASK, 0, 120), counts(TASK, 2, 130, left_out=4)]
BUDGETED = sample_task(
    PARTIES,
    minimum_reports=100,
    privacy=Privacy(10.0, 1e-2, 20.0, epsilon_total=2.5, dummies=40),
    queries=TASK.queries[:1],
)
PINS = Pins(PARTIES.operator.public, PARTIES.shuffler.public, PARTIES.analyzer.public)

CONTENT: dict[str, Any]
CERTIFICATE: bytes


@pytest.fixture(scope="module", autouse=True)
def _certified() -> None:
    """Make the certificate when the first test runs, not when tests are collected."""
    global CONTENT, CERTIFICATE
    CONTENT = content_of(TASK, PARTIES, HISTORY)
    CERTIFICATE = encode(CONTENT, PARTIES)


def test_sound_certificate_holds() -> None:
    verified = verify(CERTIFICATE, PINS)
    assert verified.pinned
    assert verified.task == TASK
    assert [record.reports for record in verified.records] == [130, 130]


@pytest.mark.parametrize("stated", [ENROLLED, OPEN], ids=["enrolled", "open"])
def test_a_certificate_says_who_was_let_in(stated: AdmissionPolicy) -> None:
    task = replace(TASK, admission=stated)
    content = content_of(task, PARTIES, HISTORY)
    assert verify(encode(content, PARTIES), PINS).admission == stated.statement(noise=False)
    other = OPEN if stated is ENROLLED else ENROLLED
    for wrong in (other.statement(noise=False), {**stated.statement(noise=False), "words": "trust me"}):
        with pytest.raises(VerificationError, match="its admission is not the statement for mode"):
            verify(encode({**content, "admission": wrong}, PARTIES), PINS)
    records = [BatchRecord.read(each, PARTIES.shuffler.public) for each in batch_records(task, PARTIES, HISTORY[-1])]
    forged = [replace(record, admission=other.mode.value).signed_by(PARTIES.shuffler).as_json() for record in records]
    with pytest.raises(VerificationError, match=f"admission was {other.mode.value} by the shuffler's record"):
        verify(encode({**content, "batches": forged}, PARTIES), PINS)


def test_what_a_certificate_states_is_shown_at_once_if_it_has_its_form_and_words() -> None:
    assert list(ladder_lines(stated(CERTIFICATE))) == list(ladder_lines(verify(CERTIFICATE, PINS).content))


def test_a_rung_says_next_to_its_number_that_this_is_not_proven() -> None:
    content = verify(CERTIFICATE, PINS).content
    plain = list(ladder_lines(content, only="round_total"))
    marks = {("round_total", "epsilon_local"): "checked, not proven"}
    marked = list(ladder_lines(content, only="round_total", marks=marks))
    assert marked == [*plain[:-1], plain[-1].replace(" if ", " (checked, not proven) if ", 1)]
    for lie in (
        _set("\x1b[2J", "ladder", "epsilon_upper"),
        _set("0", "round_total", "epsilon_upper"),
        _set(0.5, "delta"),
        _set([], "all_rounds"),
        lambda content: content.pop("ladder"),
    ):
        content = copy.deepcopy(CONTENT)
        lie(content)
        with pytest.raises(VerificationError, match="the certificate cannot be shown: "):
            stated(encode(content, PARTIES))


def test_without_pins_it_holds_and_says_that_it_is_not_pinned() -> None:
    verified = verify(CERTIFICATE, Pins())
    assert not verified.pinned
    assert set(verified.fingerprints) == {"operator", "shuffler", "analyzer"}


@pytest.mark.parametrize("role", ["operator", "shuffler", "analyzer"])
def test_another_signer_than_the_pinned_one_is_refused_and_named(role: str) -> None:
    stranger = Parties.generate().operator.public
    with pytest.raises(VerificationError, match=role):
        verify(CERTIFICATE, Pins(**{role: stranger}))


@settings(max_examples=300)
@given(st.integers(0, 2**32), st.integers(0, 255))
def test_a_changed_character_anywhere_is_refused(somewhere: int, value: int) -> None:
    place = somewhere % len(CERTIFICATE)
    if CERTIFICATE[place] == value:
        return
    changed = CERTIFICATE[:place] + bytes([value]) + CERTIFICATE[place + 1 :]
    with pytest.raises(VerificationError):
        verify(changed, Pins())


@settings(max_examples=100)
@given(st.integers(0, 2**32))
def test_a_truncated_certificate_is_refused(somewhere: int) -> None:
    with pytest.raises(VerificationError):
        verify(CERTIFICATE[: somewhere % len(CERTIFICATE)], Pins())


def test_another_form_of_the_same_json_is_refused() -> None:
    with pytest.raises(VerificationError, match="canonical"):
        verify(json.dumps(json.loads(CERTIFICATE), indent=1).encode(), Pins())


def _smaller(*path: str | int) -> Callable[[dict[str, Any]], None]:
    def change(content: dict[str, Any]) -> None:
        for step in path[:-1]:
            content = content[step]
        content[path[-1]] *= 0.999

    return change


def _set(value: Any, *path: str | int) -> Callable[[dict[str, Any]], None]:
    def change(content: dict[str, Any]) -> None:
        for step in path[:-1]:
            content = content[step]
        content[path[-1]] = value

    return change


LIES = {
    "a smaller epsilon of a query": (_smaller("queries", 0, "epsilon_upper"), "carrier"),
    "a smaller local epsilon": (_smaller("queries", 1, "epsilon_local"), "epsilon_local"),
    "a smaller epsilon of the round": (_smaller("round_total", "epsilon_upper"), "round_total"),
    "a smaller epsilon of all rounds": (_smaller("all_rounds", "epsilon_upper"), "all_rounds"),
    "a smaller epsilon at the minimum": (_smaller("all_rounds", "epsilon_upper_at_minimum"), "minimum"),
    "a smaller epsilon beside liars": (_smaller("queries", 0, "epsilon_upper_alone"), "epsilon_upper_alone"),
    "a smaller epsilon of the round beside them": (
        _smaller("round_total", "epsilon_upper_alone"),
        "epsilon_upper_alone",
    ),
    "a smaller epsilon of all rounds beside them": (
        _smaller("all_rounds", "epsilon_upper_alone"),
        "epsilon_upper_alone",
    ),
    "a smaller epsilon if the minimum is valid": (
        _smaller("round_total", "epsilon_upper_if_minimum_valid"),
        "if_minimum_valid",
    ),
    "other words on who must be honest": (_set("in any case", "ladder", "epsilon_upper"), "ladder is"),
    "a digest that is none": (_set("00" * 31, "counts_digest"), "counts_digest must be 64"),
    "no digest": (lambda content: content.pop("counts_digest"), "members of hubbub-certificate/1"),
    "a larger lower end": (_set(9.0, "queries", 0, "epsilon_lower"), "epsilon_lower"),
    "a lower end nobody attains": (lambda content: _raise_lower(content), "attack"),
    "more valid reports": (_set(130, "queries", 0, "valid"), "valid"),
    "more reports": (_set(131, "queries", 0, "reports"), "record"),
    "a larger delta": (_set(0.5, "delta"), "delta"),
    "another gamma": (_set([2**31 + 1, 2**32], "queries", 0, "gamma"), "gamma"),
    "more honest people": (_set(0.5, "honest_share"), "honest_share"),
    "a forgotten round": (lambda content: content["all_rounds"]["history"].pop(0), "all_rounds"),
    "another round": (_set(1, "round"), "round"),
    "a withheld query called published": (_set("withheld", "queries", 0, "state"), "state"),
    "a left-out report forgotten": (_set({}, "queries", 0, "left_out"), "left out"),
    "a record of another query": (lambda content: content["batches"].reverse(), "another"),
    "a missing record": (lambda content: content["batches"].pop(), "batch record"),
    "a missing release of an earlier round": (lambda content: content["releases"].pop(), "were released before it"),
    "an unknown member": (_set(1, "extra"), "members of hubbub-certificate/1"),
    "no admission": (lambda content: content.pop("admission"), "members of hubbub-certificate/1"),
    "no word at the minimum": (_set(None, "all_rounds", "epsilon_upper_at_minimum"), "must be null if"),
    "an empty task": (_set({"signatures": {}, "task": {}}, "task"), "task"),
}


def _raise_lower(content: dict[str, Any]) -> None:
    content["queries"][0]["epsilon_lower"] = content["queries"][0]["epsilon_upper"]


@pytest.mark.sampled(15)
@pytest.mark.parametrize("lie", LIES)
def test_a_lie_that_the_analyzer_signs_is_found_and_named(lie: str) -> None:
    change, named = LIES[lie]
    content = copy.deepcopy(CONTENT)
    change(content)
    if lie == "a forgotten round":
        # The composition of fewer rounds is smaller; the lie is to keep its number out.
        content["all_rounds"]["epsilon_upper"] = content["round_total"]["epsilon_upper"] * 0.99
    with pytest.raises(VerificationError, match=named):
        verify(encode(content, PARTIES), Pins())


def test_an_earlier_round_has_the_reports_that_the_shuffler_attests_not_the_analyzer() -> None:
    inflated = content_of(TASK, PARTIES, [counts(TASK, 0, 10**6), HISTORY[-1]])
    assert inflated["all_rounds"]["epsilon_upper"] < CONTENT["all_rounds"]["epsilon_upper"]
    attested = {name: CONTENT[name] for name in ("batches", "releases")}
    with pytest.raises(VerificationError, match="120 reports were released, but 1000000 are stated"):
        verify(encode(inflated | attested, PARTIES), Pins())


def test_a_release_of_another_round_does_not_stand_for_an_earlier_one() -> None:
    content = content_of(TASK, PARTIES, [counts(TASK, 1, 120), HISTORY[-1]])
    attested = {name: CONTENT[name] for name in ("batches", "releases")}
    with pytest.raises(VerificationError, match=r"it composes rounds \[1\], but the shuffler released \[0\]"):
        verify(encode(content | attested, PARTIES), Pins())


def test_budget_and_dummies_are_stated_and_checked() -> None:
    content = content_of(BUDGETED, PARTIES, [counts(BUDGETED, 0, 120)])
    verified = verify(encode(content, PARTIES), PINS)
    assert [record.dummies for record in verified.records] == [40]
    assert [query["dummies"] for query in content["queries"]] == [40]
    assert content["all_rounds"]["budget"] == 2.5
    assert CONTENT["all_rounds"]["budget"] is None
    lies = {"budget": _set(3.5, "all_rounds", "budget"), "dummies": _set(41, "queries", 0, "dummies")}
    for named, change in lies.items():
        lie = copy.deepcopy(content)
        change(lie)
        with pytest.raises(VerificationError, match=named):
            verify(encode(lie, PARTIES), Pins())


def test_a_record_with_another_number_of_dummies_is_refused() -> None:
    content = content_of(BUDGETED, PARTIES, [counts(BUDGETED, 0, 120)])
    lie = copy.deepcopy(content)
    records = batch_records(BUDGETED, PARTIES, counts(BUDGETED, 0, 120), dummies=39)
    lie["batches"] = [record.as_json() for record in records]
    with pytest.raises(VerificationError, match=f"the batch has 39 {OTHER_DUMMIES} 40"):
        verify(encode(lie, PARTIES), Pins())


def test_dummies_that_the_task_does_not_have_certify_nothing() -> None:
    plain = replace(BUDGETED, privacy=replace(BUDGETED.privacy, dummies=0))
    content, helped = (content_of(task, PARTIES, [counts(task, 0, 120)]) for task in (plain, BUDGETED))
    assert helped["queries"][0]["epsilon_upper"] < content["queries"][0]["epsilon_upper"]
    content["queries"][0]["epsilon_upper"] = helped["queries"][0]["epsilon_upper"]
    with pytest.raises(VerificationError, match="carrier"):
        verify(encode(content, PARTIES), Pins())


def test_a_task_without_the_shufflers_signature_is_refused() -> None:
    content = copy.deepcopy(CONTENT)
    del content["task"]["signatures"]["shuffler"]
    with pytest.raises(VerificationError, match="shuffler"):
        verify(encode(content, PARTIES), Pins())


def test_a_record_signed_by_somebody_else_is_refused() -> None:
    content = copy.deepcopy(CONTENT)
    content["batches"][0]["body"]["reports"] = 120
    with pytest.raises(VerificationError, match="batch record"):
        verify(encode(content, PARTIES), Pins())


def test_withheld_query_states_the_epsilon_reached() -> None:
    content = content_of(TASK, PARTIES, [counts(TASK, 0, 110, left_out=20)])
    verified = verify(encode(content, PARTIES), PINS)
    assert [query["state"] for query in verified.content["queries"]] == ["withheld", "withheld"]
    better = content_of(TASK, PARTIES, [counts(TASK, 0, 110)])
    assert content["queries"][0]["epsilon_upper"] > better["queries"][0]["epsilon_upper"]


def test_certificates_bytes_are_canonical() -> None:
    assert canonical(json.loads(CERTIFICATE)) == CERTIFICATE


@pytest.mark.parametrize(
    ("document", "found"),
    [
        (signed(TASK, PARTIES).encode(), "a task"),
        (b"{}\n", "JSON without the members body and signature"),
        (b"[task]\n", "not a JSON object"),
        (b"[]", "not a JSON object"),
        (b"", "an empty file"),
        (b"-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----\n", "a PEM file, a private key"),
        (b"-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n", "a PEM file, a certificate"),
    ],
)
def test_another_file_than_a_certificate_is_said_to_be_one(document: bytes, found: str) -> None:
    with pytest.raises(NotACertificate) as refused:
        verify(document, PINS)
    remedy = "`hubbub results --certificate FILE` saves a certificate"
    assert str(refused.value) == f"not a certificate of a round: it is {found}; {remedy}"


@pytest.mark.parametrize(
    "saved",
    [
        lambda: CERTIFICATE[:-9],
        lambda: CERTIFICATE + b"\n",
        lambda: b"\xef\xbb\xbf" + CERTIFICATE,
        lambda: json.dumps(CONTENT | {"body": 1, "signature": 2}).encode(),
    ],
)
def test_a_certificate_that_was_cut_short_or_saved_anew_does_not_hold(saved: Callable[[], bytes]) -> None:
    document = saved()
    with pytest.raises(VerificationError, match=r"^the certificate is not valid: ") as refused:
        verify(document, PINS)
    assert not isinstance(refused.value, NotACertificate)


def test_a_forged_certificate_comes_with_one_advice() -> None:
    forged = CERTIFICATE.replace(b'"epsilon_upper":', b'"epsilon_upper":9', 1)
    with pytest.raises(VerificationError, match=r"or another key signed it\. Do not use its numbers; ask ") as refused:
        verify(forged, PINS)
    assert "again" not in str(refused.value)


def test_a_task_id_is_held_to_and_another_one_is_refused_and_named() -> None:
    assert verify(CERTIFICATE, replace(PINS, task_id=TASK.id)).pinned
    with pytest.raises(
        VerificationError,
        match=f"the certificate is of task flights, {TASK.id.hex()}, not of the task given with --task",
    ):
        verify(CERTIFICATE, Pins(task_id=bytes(32)))
