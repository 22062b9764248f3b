"""Anyone gives a file and sees what is promised to whom; what is wrong with it is said, and nothing of it shown."""

from __future__ import annotations

import json

import pytest

from hubbub.accountant.certificate.ladder import ladders
from hubbub.pages.dashboard.views import certificates
from hubbub.protos.records.results_document import results_document, series_document
from hubbub.verification.certificate import stated
from hubbub.verification.pins import Pins
from support.certificates import content_of, counts, encode
from support.dashboard import KEYS, TASK, Browser, Looked, made_rounds, site_of, stub
from support.logged_tasks import demanding, proof_of
from support.messages import NOT_SHOWN_TO_BE_IN_LOG
from support.samples import Parties, sample_task, signed

CERTIFICATE = made_rounds()[1].certificate
RESULTS = json.dumps(results_document(made_rounds()[0])).encode()


def given(content: bytes, name: str = "certificate.json", pins: Pins = KEYS, pinned: bool = True) -> Looked:
    browser = Browser(site_of(stub(), pins))
    fields = {"pinned": "yes"} if pinned else {}
    return browser.post("/certificate", fields, files={"file": (name, content)})


def words(seen: Looked) -> str:
    return " ".join(seen.page.words.split())


def test_a_valid_certificate_shows_its_ladder_and_who_signed() -> None:
    seen = given(CERTIFICATE)
    assert seen.status == 200
    found = ladders(stated(CERTIFICATE))
    rungs = [rung for each in found if each.query is None for rung in each.rungs]
    assert seen.page.numbers == [rung.epsilon for rung in rungs]
    assert all(rung.words in words(seen) for rung in rungs)
    assert "The certificate is valid." in words(seen)
    assert "signed by the parties whose keys this dashboard knows" in words(seen)
    assert "60 valid reports of 120, withheld" in words(seen)


def test_results_are_computed_again() -> None:
    assert "estimates follow from them: drink, milk" in words(given(RESULTS, "results.json"))


def test_the_command_to_check_it_oneself_has_the_files_name_quoted() -> None:
    name = "a b;$(reboot).json"
    assert "hubbub verify 'a b;$(reboot).json' --operator-key operator.pub.pem" in words(given(CERTIFICATE, name))
    assert "verify passwd" in words(given(CERTIFICATE, "../../etc/passwd"))


@pytest.mark.parametrize("pinned", [True, False])
def test_without_known_keys_it_says_that_anybody_could_have_made_it(pinned: bool) -> None:
    seen = given(CERTIFICATE, pins=Pins() if pinned else KEYS, pinned=pinned)
    assert "Anybody could have made it: the keys of operator, shuffler, analyzer" in words(seen)
    assert words(seen).count("not compared") >= 3


def test_other_keys_are_said_and_no_number_is_shown() -> None:
    other = Parties.generate()
    seen = given(CERTIFICATE, pins=Pins(other.operator.public, other.shuffler.public, other.analyzer.public))
    assert "The keys are others." in words(seen)
    assert seen.page.numbers == []
    assert "valid." not in words(seen)


def changed(content: bytes) -> bytes:
    return content.replace(b'"epsilon_upper":', b'"epsilon_upper": 1e-3, "was":', 1)


FAULTS = {
    "changed": changed(CERTIFICATE),
    "cut": CERTIFICATE[:-40],
    "nothing": b"\x00\xff\x00",
    "a page": b"<html><script>alert(1)</script>",
    "an estimate": RESULTS.replace(b'"estimate": ', b'"estimate": 1', 1),
    "several rounds": json.dumps(series_document(made_rounds())).encode(),
    "a task": json.dumps({"task": {}, "signatures": {}}).encode(),
    "deep": b"[" * 100_000,
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_wrong_is_said_and_no_number_is_shown(fault: str) -> None:
    seen = given(FAULTS[fault])
    assert seen.status == 200
    assert "Not verified." in words(seen)
    assert "The certificate is valid" not in words(seen)
    assert seen.page.numbers == []
    assert "script" not in seen.page.elements


def test_no_file_is_said() -> None:
    browser = Browser(site_of(stub()))
    assert browser.post("/certificate", {}).status == 400
    assert browser.post("/certificate", {}, files={"file": ("x", b"")}).status == 400
    assert browser.post("/certificate", {"file": "text"}).status == 400
    assert TASK.name not in browser.get("/certificate").page.words


def test_a_form_that_is_no_form_is_refused() -> None:
    browser = Browser(site_of(stub()))
    for kind, body in (("multipart/form-data", b"x"), ("multipart/form-data; boundary=a", b"--b"), ("text/x", b"x")):
        answer = browser.client.post("/certificate", content=body, headers={"content-type": kind})
        assert answer.status_code in (400, 403)
        assert "no page" not in answer.text


def test_several_files_are_refused() -> None:
    files = [("file", ("a", CERTIFICATE)), ("file", ("b", CERTIFICATE))]
    assert Browser(site_of(stub())).post("/certificate", {}, files=files).status == 400


def test_a_certificate_of_very_many_rounds_is_left_to_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    document = json.loads(CERTIFICATE)
    document["body"]["all_rounds"]["history"] *= 1000
    monkeypatch.setattr(certificates, "verify", None)
    assert "its ε is of 2000 rounds, and a page checks at most 366; use `hubbub verify`" in words(
        given(json.dumps(document).encode())
    )


def test_a_certificate_of_a_task_that_demands_a_log_is_given_with_its_proofs() -> None:
    parties = Parties.generate()
    task = demanding(sample_task(parties, minimum_reports=100))
    certificate = encode(content_of(task, parties, [counts(task, 0, 120)]), parties)
    file = ("file", ("certificate.json", certificate))
    bare = Browser(site_of(stub())).post("/certificate", {}, files=[file, ("proof", ("", b""))])
    assert f"is right in itself, but it is {NOT_SHOWN_TO_BE_IN_LOG} stats.example/log" in words(bare)
    assert "hubbub log prove LOG CERTIFICATE.json" in words(bare)
    proofs = [proof_of(each).encode() for each in (certificate, signed(task, parties).encode())]
    files = [file, *(("proof", (f"{number}.tlog-proof", each)) for number, each in enumerate(proofs))]
    shown = Browser(site_of(stub())).post("/certificate", {}, files=files)
    assert "The certificate is valid." in words(shown)
    assert "It is in log stats.example/log, as its task demands with 2 of 3 witnesses" in words(shown)
    broken = Browser(site_of(stub())).post("/certificate", {}, files=[file, ("proof", ("p", b"x"))])
    assert "not a proof" in words(broken)
