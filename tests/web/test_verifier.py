"""The verifier in TypeScript refuses what Python refuses, and names everything that it does not compute."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from unit.verification import test_certificate as made
from unit.verification.test_changed_results import CASES, case, changed_numbers
from unit.verification.test_followed_successions import FOLLOWED, certificate
from unit.verification.test_results import _put

from hubbub.accountant.certificate.ladder import RUNGS
from hubbub.accountant.mechanisms import NoiseLaw
from hubbub.protos.identity.documents import canonical, sign
from hubbub.protos.identity.formats import CERTIFICATE
from hubbub.protos.task.task import Privacy, Task
from hubbub.queries.query import Query
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.randomizers.hashed import HashedResponse
from hubbub.queries.randomizers.krr import KRandomizedResponse
from hubbub.verification.certificate import Pins, VerificationError, verify
from support.certificates import content_of, counts, encode
from support.samples import Parties, sample_task
from support.source_tree import ROOT
from support.thoroughness import usually
from support.web_client import run_program, vector
from vectors.make_kinds import FOLDER as KINDS_FOLDER
from vectors.make_signed import PARTIES

EXAMPLE = ROOT / "docs" / "examples" / "commute"
SIGNED = ROOT / "tests" / "vectors" / "signed" / "hubbub-certificate-1.json"
NOISE = KINDS_FOLDER / "noise" / "certificate.json"
REFUSED = json.loads(vector("refused.json").read_text())
EPSILONS = set(RUNGS)
EVERY = usually(23, 1)
"""Every how many changes of a file of results are tried."""

Outcome = dict[str, Any]
Verifying = Callable[[list[dict[str, Any]]], list[Outcome]]


@pytest.fixture
def verifying(built: None, tmp_path: Path) -> Verifying:
    """Verify many cases in one run of Node."""

    def run(cases: list[dict[str, Any]]) -> list[Outcome]:
        file = tmp_path / "cases.json"
        file.write_text(json.dumps(cases))
        outcomes: list[Outcome] = run_program("verify.js", file)
        return outcomes

    return run


def of(*documents: bytes | str | Path, **pins: str) -> dict[str, Any]:
    """A case: its files, and the pinned keys in hex."""
    files = []
    for place, each in enumerate(documents):
        content = each.read_bytes() if isinstance(each, Path) else each.encode() if isinstance(each, str) else each
        name = each.name if isinstance(each, Path) else f"file-{place}.json"
        files.append({"name": name, "base64": base64.b64encode(content).decode()})
    return {"files": files, "pins": pins}


def codes(outcome: Outcome) -> set[str]:
    return {code for code, _ in outcome["problems"]}


@cache
def sound() -> dict[str, dict[str, Any]]:
    """Files that Python verifies: every kind's certificate, those of documents, and results."""
    found = {f"kinds/{path.parent.name}": of(path) for path in sorted(KINDS_FOLDER.glob("*/certificate.json"))}
    found |= {"signed": of(SIGNED), "example": of(EXAMPLE / "certificate.json", EXAMPLE / "results.json")}
    found["history"] = of(*sorted((EXAMPLE / "history").glob("*.json")))
    for name in CASES:
        found[f"results of {name}"] = of(*(json.dumps(each, indent=1) for each in case(name)))
    return found


OVER_TIME_OR_HASHED = {"active", "site", "drink"}


def test_what_python_verifies_is_not_refused_and_estimates_are_made_again(verifying: Verifying) -> None:
    cases = sound()
    outcomes = dict(zip(cases, verifying(list(cases.values())), strict=True))
    assert {name: each["problems"] for name, each in outcomes.items() if each["problems"]} == {}
    for name in CASES:
        asked = [query["name"] for query in case(name)[-1]["queries"] if query["state"] == "published"]
        sums = [each["name"] for each in case(name)[-1].get("sums", [])]
        again, left = outcomes[f"results of {name}"]["again"], set(outcomes[f"results of {name}"]["left"])
        assert set(again) | left == set(asked) | set(sums), name
        # A histogram named "site" is hashed in one case, and sent by kRR in another.
        assert left <= OVER_TIME_OR_HASHED
        assert bool(left) == (name in {"hashed", "text", "looked-up"} or name.startswith("longitudinal"))
    assert outcomes["example"]["again"] == ["transport", "duration"]


def test_each_epsilon_is_checked_here_or_named_and_none_is_left_out(verifying: Verifying) -> None:
    cases = {name: each for name, each in sound().items() if name.startswith(("kinds", "signed"))}
    for name, outcome in zip(cases, verifying(list(cases.values())), strict=True):
        document = base64.b64decode(cases[name]["files"][0]["base64"])
        body = json.loads(document)["body"]
        objects = [("query", each["name"], each) for each in body["queries"]]
        objects += [(each, None, body[each]) for each in ("round_total", "all_rounds", "horizon") if each in body]
        stated = [
            [covers, query, member, each[member]]
            for covers, query, each in objects
            for member in RUNGS
            if each.get(member) is not None
        ]
        assert [row[:4] for row in outcome["epsilons"]] == stated, name
        lines = [line["text"] for line in outcome["lines"] if line["kind"] == "left"]
        # Also a number of which no sentence of a certificate of one round speaks.
        unknown = [row for row in outcome["epsilons"] if row[4] == "not"]
        assert len([text for text in lines if "ε ≤" in text]) == len(unknown), name
        silent = [row for row in unknown if row[2] not in body["ladder"]]
        assert len([text for text in lines if "ε ≤" in text and "epsilon_upper_at_minimum" in text]) == len(silent)
        assert all("not recomputed here; run `hubbub verify" in text for text in lines)
    (only,) = verifying([of(NOISE)])
    assert {row[4] for row in only["epsilons"]} == {"noise", "device"}


def test_nothing_says_that_a_certificate_is_valid(verifying: Verifying) -> None:
    for outcome in verifying(list(sound().values())):
        assert not any("certificate is valid" in line["text"] for line in outcome["lines"])


# Tasks


def with_task(task: Any) -> bytes:
    """A certificate of the vectors with another task in it, signed anew by the analyzer."""
    content = body_of(SIGNED) | {"task": task}
    key = PARTIES.analyzer.key
    signature = sign(CERTIFICATE.format, canonical(content), key)
    return canonical({"body": content, "signature": signature.hex()})


def test_every_refused_task_is_refused_in_a_certificate_for_the_same_reason(verifying: Verifying) -> None:
    good, *_ = (base64.b64decode(each["document"]) for each in REFUSED["tasks"])
    whole = with_task(json.loads(good, parse_int=as_double))
    wanted, cases = [], []
    for each in REFUSED["tasks"]:
        document = base64.b64decode(each["document"])
        wanted.append({each["because"]} if each["because"] != "canonical" else {"canonical", "json"})
        # Forms are kept byte for byte; who changes a form cannot sign it as another one.
        if each["because"] == "canonical":
            assert good in whole
            cases.append(of(whole.replace(good, document)))
            continue
        cases.append(of(with_task(json.loads(document, parse_int=as_double))))
    for each, expected, outcome in zip(REFUSED["tasks"], wanted, verifying(cases), strict=True):
        if each["because"] is None:
            assert outcome["problems"] == []
        else:
            assert len(codes(outcome)) == 1, each["what"]
            assert codes(outcome) <= expected, (each["what"], outcome["problems"])


def as_double(text: str) -> int | float:
    """Whole numbers beyond 2⁵³ are doubles in canonical form."""
    return int(text) if len(text) < 16 else float(text)


def body_of(file: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(file.read_bytes(), parse_int=as_double)["body"]
    return content


# Lies that the analyzer signs


@cache
def content() -> dict[str, Any]:
    return content_of(made.TASK, made.PARTIES, made.HISTORY)


def is_named(outcome: Outcome, member: str) -> bool:
    """Whether an ε that was changed is said not to be computed here."""
    return any(row[2] == member and row[4] == "not" for row in outcome["epsilons"])


def test_lies_that_python_finds_are_refused_or_named_as_not_computed(verifying: Verifying) -> None:
    lies: list[tuple[str, dict[str, Any]]] = []
    for name, (change, _) in made.LIES.items():
        other = copy.deepcopy(content())
        change(other)
        lies.append((name, other))
    outcomes = verifying([of(encode(other, made.PARTIES)) for _, other in lies])
    left = {name for (name, _), outcome in zip(lies, outcomes, strict=True) if not outcome["problems"]}
    # These rest on the crowd: each is named, and so is what attacks reach.
    named = {
        "a smaller epsilon of the round": "epsilon_upper",
        "a smaller epsilon of all rounds": "epsilon_upper",
        "a smaller epsilon at the minimum": "epsilon_upper_at_minimum",
        "a smaller epsilon if the minimum is valid": "epsilon_upper_if_minimum_valid",
        "a lower end nobody attains": "epsilon_upper",
    }
    assert left == set(named)
    for (name, _), outcome in zip(lies, outcomes, strict=True):
        if name in left:
            assert is_named(outcome, named[name])
            assert any("epsilon_lower" in line["text"] for line in outcome["lines"])


@pytest.mark.parametrize("member", ["epsilon_upper_if_minimum_valid", "epsilon_upper_alone"])
def test_an_epsilon_that_believes_fewer_is_never_the_smaller_one(verifying: Verifying, member: str) -> None:
    cases = []
    for name in ("round_total", "all_rounds"):
        other = copy.deepcopy(content())
        # Not below what the device alone keeps, or what noise keeps: the order alone is wrong.
        other[name]["epsilon_upper"] = 100.0
        other[name][member] = 99.0
        cases.append(of(encode(other, made.PARTIES)))
    attacked = copy.deepcopy(content())
    # Whoever reads a report reaches the local ε: beside it no attack is stated.
    attacked["queries"][0]["epsilon_lower_alone"] = 0.5
    cases.append(of(encode(attacked, made.PARTIES)))
    assert [codes(outcome) for outcome in verifying(cases)] == [{"number"}] * 3


def test_a_release_that_the_shuffler_did_not_attest_is_refused(verifying: Verifying) -> None:
    other = copy.deepcopy(content())
    other["releases"][0]["records"][0] = "11" * 32
    (outcome,) = verifying([of(encode(other, made.PARTIES))])
    assert codes(outcome) == {"release"}


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every member of a certificate's body but the parts that others signed."""
    if isinstance(value, dict | list):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            if (*path, key) not in {("task",), ("batches",), ("successions",)}:
                yield from leaves(each, (*path, key))
        return
    yield path


def changes(value: Any) -> list[Any]:
    if isinstance(value, bool) or value is None:
        return [1, "x"]
    if isinstance(value, int | float):
        return [value * 0.999 if value else 0.5, value + 1, -value - 1, str(value), None]
    return [value + "x", None]


@pytest.mark.parametrize("file", [NOISE, SIGNED], ids=["noise", "signed"])
def test_each_member_of_a_certificate_changed_is_refused_or_named(verifying: Verifying, file: Path) -> None:
    body = body_of(file)
    places = [(path, other) for path in leaves(body) for other in changes(_at(body, path))]
    places = places[:: usually(3, 1)] if file == SIGNED else places
    cases = [of(encode(_put(body, path, lambda _, new=other: new), PARTIES)) for path, other in places]
    missing = [path for path in leaves(body) if isinstance(path[-1], str)]
    more = [_put(body, path[:-1], lambda each: {**each, "__proto__x": 1}) for path in missing if path[:-1]]
    fewer = [_without(body, path) for path in missing]
    outcomes = verifying([*cases, *(of(encode(each, PARTIES)) for each in (*more, *fewer))])
    for (path, other), outcome in zip(places, outcomes, strict=False):
        before, member = _at(body, path), str(path[-1])
        if outcome["problems"]:
            continue
        names = [line["text"] for line in outcome["lines"] if line["kind"] == "left"]
        if member.startswith("epsilon_lower"):
            assert any("epsilon_lower" in text for text in names)
        elif member == "counts_digest":
            assert any("counts_digest" in text for text in names)
        elif member == "bound":
            assert path[0] != "queries"
            assert any("bound that totals name" in text for text in names)
        else:
            # An ε that is larger is true as well; a smaller one is only not refused if it is named.
            assert member in EPSILONS, (path, other)
            assert other > before or is_named(outcome, member), (path, other)
    assert all(outcome["problems"] for outcome in outcomes[len(cases) :])


def _at(document: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        document = document[key]
    return document


def _without(document: Any, path: tuple[Any, ...]) -> Any:
    changed = copy.deepcopy(document)
    del _at(changed, path[:-1])[path[-1]]
    return changed


# Noise


def noisy(randomizer: Any, noise: NoiseLaw, question: Histogram) -> Task:
    privacy = Privacy(epsilon=90.0, delta=1e-6, epsilon_local=99.0, epsilon_total=2000.0)
    query = Query(question, randomizer, noise)
    return sample_task(PARTIES, name="noisy", minimum_reports=100, queries=(query,), privacy=privacy)


def histogram(answers: int) -> Histogram:
    return Histogram("q", tuple(map(str, range(answers))))


NOISY = {
    "two answers": noisy(KRandomizedResponse(2, 2**29), NoiseLaw("geometric", 3 * 2**30, 60), histogram(2)),
    "five answers": noisy(KRandomizedResponse(5, 2**28), NoiseLaw("gaussian", 40 * 2**32, 60), histogram(5)),
    "hashed": noisy(
        HashedResponse(9, 5, 2, 2**29),
        NoiseLaw("geometric", 5 * 2**29, 40),
        replace(histogram(9), randomizer="hashed"),
    ),
}


def test_the_epsilon_of_noise_is_proven_and_none_below_it(verifying: Verifying) -> None:
    cases = []
    for task in NOISY.values():
        latest = counts(task, 0, 120)
        least = task.queries[0].noise_range
        assert least is not None
        latest = replace(latest, queries=tuple(replace(each, noise=least[1]) for each in latest.queries))
        body = content_of(task, PARTIES, [latest])
        cases.append(of(encode(body, PARTIES)))
        for share in (1 - 2e-5, 1 - 2e-5, 0.5):
            other = copy.deepcopy(body)
            # Python rounds an ε up in its sixth digit, so this one is below the true one.
            other["queries"][0]["epsilon_upper_alone"] *= share
            for member in ("epsilon_upper", "epsilon_upper_if_minimum_valid"):
                other["queries"][0][member] = min(other["queries"][0][member], 1e-3)
            cases.append(of(encode(other, PARTIES)))
    outcomes = verifying(cases)
    for place, outcome in enumerate(outcomes):
        if place % 4:
            assert codes(outcome) == {"number"}
            assert "noise" in outcome["problems"][0][1]
        else:
            alone = [row[4] for row in outcome["epsilons"] if row[2] == "epsilon_upper_alone"]
            assert (outcome["problems"], set(alone)) == ([], {"noise"})


# Keys, successions, hops and histories


def pinned(parties: Parties) -> dict[str, str]:
    return {role: getattr(parties, role).public.hex() for role in ("operator", "shuffler", "analyzer")}


def test_pinned_keys_are_held_to_and_others_are_shown_to_compare(verifying: Verifying) -> None:
    keys, stranger = pinned(PARTIES), pinned(Parties.generate())
    right, none, *wrong = verifying(
        [of(SIGNED, **keys), of(SIGNED), *(of(SIGNED, **{**keys, role: stranger[role]}) for role in keys)]
    )
    assert right["problems"] == none["problems"] == []
    compared = [line["text"] for line in none["lines"] if line["kind"] == "compare"]
    assert [text.rpartition(": ")[2].replace("-", "") for text in compared] == list(keys.values())
    assert not any(line["kind"] == "compare" for line in right["lines"])
    assert [codes(each) for each in wrong] == [{"pin"}] * 3


def test_a_succession_leads_from_a_pinned_key_to_the_one_that_signed(verifying: Verifying) -> None:
    before, forged = verifying(
        [
            of(certificate(), shuffler=FOLLOWED[0].old.hex(), analyzer=FOLLOWED[1].new.hex()),
            of(certificate(successions=()), shuffler=FOLLOWED[0].new.hex()),
        ]
    )
    assert before["problems"] == []
    assert codes(forged) == {"pin"}


def test_every_hops_record_is_checked(verifying: Verifying) -> None:
    parties = Parties.generate(hops=2)
    task = sample_task(parties, minimum_reports=100)
    body = content_of(task, parties, [counts(task, 0, 120)])
    strangers = Parties(parties.operator, parties.shuffler, parties.analyzer, Parties.generate(hops=2).hops)
    forged = content_of(replace(task), strangers, [counts(task, 0, 120)]) | {"task": body["task"]}
    assert verify(encode(body, parties), Pins()).hops
    good, bad = verifying([of(encode(body, parties)), of(encode(forged, parties))])
    assert good["problems"] == []
    assert codes(bad) == {"signature"}


def test_a_gap_a_second_certificate_of_a_round_and_foreign_results_are_found(verifying: Verifying) -> None:
    first, _, last = sorted((EXAMPLE / "history").glob("*.json"))
    other = content() | {"counts_digest": "11" * 32}
    gap, twice, foreign = verifying(
        [
            of(first, last),
            of(encode(content(), made.PARTIES), encode(other, made.PARTIES)),
            of(EXAMPLE / "history" / "certificate-0.json", EXAMPLE / "results.json"),
        ]
    )
    assert any("its certificate is missing" in words for _, words in gap["problems"])
    assert any("different certificate" in words for _, words in twice["problems"])
    assert "kind" in codes(foreign)


@pytest.mark.parametrize("name", ["certificate-0.json", "certificate-0.json, rounds[0.json"])
def test_foreign_results_are_found_whatever_their_file_is_called(verifying: Verifying, name: str) -> None:
    one = of(EXAMPLE / "history" / "certificate-0.json", json.dumps(case("noise")[-1]))
    one["files"][1]["name"] = name
    (outcome,) = verifying([one])
    assert codes(outcome) == {"kind"}
    assert "the certificate in these results is none of those given" in outcome["problems"][0][1]


# Results


@pytest.mark.parametrize("name", ["several", "distribution", "grouped", "variance", "noise", "top", "digits", "text"])
def test_each_number_of_results_changed_is_refused_or_named(verifying: Verifying, name: str) -> None:
    *before, last = case(name)
    changed = list(changed_numbers(last))[::EVERY]
    members = [path for path in leaves({**last, "certificate": 0}) if isinstance(path[-1], str)][::EVERY]
    others = [_put(last, path, lambda _, new=other: new) for path, other in changed]
    others += [_without(last, path) for path in members]
    others += [_put(last, path[:-1], lambda each: {**each, "more": 1}) for path in members if path[:-1]]
    outcomes = verifying([of(*(json.dumps(each) for each in (*before, other))) for other in others])
    free = {"answered", "counts"} if name == "text" else set()
    for outcome, other in zip(outcomes, others, strict=True):
        if not outcome["problems"]:
            assert free, other
            assert outcome["left"]


def test_other_counts_than_the_certified_ones_are_refused_by_their_digest(verifying: Verifying) -> None:
    cases = []
    for name in ("noise", "several"):
        (document,) = case(name)
        tally = document["queries"][0]["tally"]
        found = base64.b64decode(tally["counts"])
        # One report moves from a symbol to the next: the sum stays, and so do the numbers of reports.
        moved = [int.from_bytes(found[place : place + 8], "little") for place in range(0, len(found), 8)]
        moved[0], moved[1] = moved[0] - 1, moved[1] + 1
        other = base64.b64encode(b"".join(each.to_bytes(8, "little") for each in moved)).decode()
        cases.append(of(json.dumps(_put(document, ("queries", 0, "tally", "counts"), lambda _, new=other: new))))
    for outcome in verifying(cases):
        assert [code for code, _ in outcome["problems"]] == ["counts"]
        assert "digest" in outcome["problems"][0][1]


# Bytes that nobody should read


def odd_files() -> dict[str, bytes]:
    good, text = NOISE.read_bytes(), (EXAMPLE / "results.json").read_text()
    return {
        "a space": good.replace(b'":', b'": ', 1),
        "a line's end": good + b"\n",
        "minus zero": good.replace(b'"dummies":0', b'"dummies":-0', 1),
        "too large for a double": good.replace(b'"reports":120', b'"reports":1e400', 1),
        "a long number": good.replace(b'"reports":120', b'"reports":' + b"9" * 100_000, 1),
        "a key twice": good.replace(b'{"body":{', b'{"body":{"round":0,', 1),
        "what objects inherit": good.replace(b'{"body":{', b'{"body":{"__proto__":{"round":0},', 1),
        "a constructor": good.replace(b'"left_out":{}', b'"left_out":{"constructor":0}', 1),
        "deep": b'{"body":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        "half of a pair": good.replace(b'"theme"', b'"\\ud800"', 1),
        "no UTF-8": good.replace(b"theme", b"th\xffme", 1),
        "a byte order mark": b"\xef\xbb\xbf" + good,
        "a text without an end": b'{"body":"' + b"\\" * 99_999,
        "nothing": b"",
        "an empty object": b"{}",
        "null": b"null",
        "a body that is none": b'{"body":null,"signature":"00"}',
        "results without a certificate": b'{"format":"hubbub-results/1"}',
        "results with a key twice": text.replace('"round": 0', '"round": 1, "round": 0', 1).encode(),
        "results with a key twice, written in two ways": text.replace('"name"', '"n\\u0061me": "", "name"', 1).encode(),
        "results of nothing": b'{"format":"hubbub-series/1","rounds":[],"task":{}}',
        "results of another version": b'{"format":"hubbub-results/2"}',
        "a name that turns text around": good.replace(b"theme", "th\u202eme".encode(), 1),
    }


def test_odd_bytes_are_refused_and_none_stops_the_program(verifying: Verifying) -> None:
    files = odd_files()
    for name, outcome in zip(files, verifying([of(each) for each in files.values()]), strict=True):
        assert outcome["problems"], name
        assert not any("\u202e" in line["text"] for line in outcome["lines"])


def parts(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every object, list and member in a document."""
    if path:
        yield path
    if isinstance(value, dict | list):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from parts(each, (*path, key))


OTHER_TYPES: list[Any] = [{}, [], None, "x", 5, True, {"toString": 1}, [[]]]


def test_a_part_of_another_type_is_refused_and_none_stops_the_program(verifying: Verifying) -> None:
    body, (document,) = body_of(NOISE), case("noise")
    # An ε that is larger is true as well, and other members of these names are said not to be computed.
    places = [path for path in parts(body) if not str(path[-1]).startswith("epsilon") and path[-1] != "bound"]
    changed = [(path, OTHER_TYPES[place % len(OTHER_TYPES)]) for place, path in enumerate(places)]
    cases = [
        of(encode(_put(body, path, lambda _, new=other: new), PARTIES))
        for path, other in changed
        if _at(body, path) != other
    ]
    of_results = list(parts({**document, "certificate": 0}))
    changed = [(path, other) for place, path in enumerate(of_results) for other in OTHER_TYPES[place % 2 :: 2]]
    cases += [
        of(json.dumps(_put(document, path, lambda _, new=other: new)))
        for path, other in changed
        if _at(document, path) != other
    ]
    assert all(outcome["problems"] for outcome in verifying(cases))


def test_a_name_that_a_shell_would_act_on_is_in_no_command(verifying: Verifying) -> None:
    one = of(EXAMPLE / "certificate.json")
    one["files"][0]["name"] = "$(touch it);.json"
    (outcome,) = verifying([one])
    commands = [line["text"].partition("`")[2] for line in outcome["lines"] if "`" in line["text"]]
    assert set(commands) == {"hubbub verify FILE`"}


def test_numbers_that_would_take_long_are_refused_at_once(verifying: Verifying) -> None:
    body = body_of(NOISE)
    cases = []
    for path, other in (
        (("queries", 0, "epsilon_local"), 1e308),
        (("round_total", "epsilon_upper_alone"), 1e308),
        (("queries", 0, "epsilon_upper"), 5e-324),
        (("uncounted",), list(range(10**5))),
        (("queries", 0, "noise", "reach"), 10**15),
    ):
        cases.append(of(encode(_put(body, path, lambda _, new=other: new), PARTIES)))
    task = copy.deepcopy(body["task"]["task"])
    task["queries"][0]["noise"]["reach"] = 10**15
    parties = {"operator": PARTIES.operator, "shuffler": PARTIES.shuffler}
    signatures = {name: sign("hubbub-task/1", canonical(task), each.key).hex() for name, each in parties.items()}
    cases.append(of(encode({**body, "task": {"signatures": signatures, "task": task}}, PARTIES)))
    large, total, small, *others = verifying(cases)
    # A huge ε is true, and promises nothing; it is not refused.
    assert large["problems"] == [] or codes(large) == {"number"}
    assert total["problems"] == []
    assert codes(small) == {"number"}
    assert all(each["problems"] for each in others)


def test_a_signature_of_another_form_is_none(verifying: Verifying) -> None:
    body = body_of(NOISE)
    key = PARTIES.analyzer.key
    spaced = json.dumps(body, sort_keys=True).encode()
    under = [
        sign(CERTIFICATE.format, spaced, key),
        sign("hubbub-task/1", canonical(body), key),
        sign(CERTIFICATE.format, canonical(body), PARTIES.operator.key),
        key.sign(canonical(body)),
    ]
    documents = [canonical({"body": body, "signature": each.hex()}) for each in under]
    for document, outcome in zip(documents, verifying([of(each) for each in documents]), strict=True):
        assert codes(outcome) == {"signature"}
        with pytest.raises(VerificationError):
            verify(document, Pins())
