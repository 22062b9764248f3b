"""The results of every kind of question follow from their counts, and any other number is refused."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hubbub.analyzer.results import results_of as results_of_history
from hubbub.deploy.operator.lookup import decoded
from hubbub.protos.records.counts import (
    DIGEST,
    Counted,
    CountsDiffer,
    check_published,
    counts_digest,
    read_certified,
)
from hubbub.protos.records.results import QueryState, RoundResults
from hubbub.protos.records.results_document import results_document
from hubbub.protos.task.task import Task
from hubbub.verification.certificate import Pins, VerificationError
from hubbub.verification.history import read_histories
from hubbub.verification.results import RecomputedResults, recompute
from hubbub.verification.results_files import one_round, read_every
from support.certificates import content_of, encode
from support.messages import RESULTS_DO_NOT_AGREE
from vectors.make_kinds import DEVICES, KINDS, WORDS, counts_of, history_of, published, reports_of, task_of
from vectors.make_signed import PARTIES

each = pytest.mark.parametrize("name", KINDS)


def certificate_of(task: Task, rounds: list[bytes]) -> bytes:
    """The certificate of the last round, which binds what was counted in it."""
    number, query = len(rounds) - 1, task.queries[0]
    history = counts_of(task, rounds)
    content = content_of(task, PARTIES, history)
    counted = Counted(DEVICES, DEVICES, {}, query.randomizer.tally(rounds[-1]), history[-1].queries[0].noise)
    content[DIGEST] = counts_digest(task, number, [counted]).hex()
    return encode(content, PARTIES)


@cache
def results_of(name: str) -> list[RoundResults]:
    """What the analyzer publishes of each round."""
    task, rounds = task_of(name), reports_of(name)
    cut = [rounds[: number + 1] for number in range(len(rounds))]
    return [published(task, until, certificate_of(task, until)) for until in cut]


def documents(results: list[RoundResults]) -> list[dict[str, Any]]:
    return [json.loads(json.dumps(results_document(each))) for each in results]


def checked(found: list[dict[str, Any]]) -> list[RecomputedResults | VerificationError]:
    read = [read_every(Path(f"{number}.json"), json.dumps(each).encode()) for number, each in enumerate(found)]
    files = [file for (file,) in read]
    return list(recompute(files, {file.certificate for file in files}))


@pytest.mark.sampled(6)
@each
def test_results_of_every_kind_are_made_again_from_their_counts(name: str) -> None:
    results = results_of(name)
    found = checked(documents(results))
    names = tuple(each.name for each in (*results[-1].queries, *results[-1].sums))
    assert names == (KINDS[name].query.name, "stairs")[: 2 if name == "digits" else 1]
    assert [each.queries for each in found if isinstance(each, RecomputedResults)] == [names] * len(found)
    assert all(isinstance(each, RecomputedResults) and not each.left for each in found)
    assert not any("certificate" in read.document for read in map(_read, documents(results))), "it is there as bytes"
    assert [read.certificate for read in map(_read, documents(results))] == [each.certificate for each in results]


def _read(document: dict[str, Any]) -> Any:
    (file,) = read_every(Path("r.json"), json.dumps(document).encode())
    return file


def _numbers(document: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(document, dict | list):
        members = document.items() if isinstance(document, dict) else enumerate(document)
        return [found for key, member in members for found in _numbers(member, (*path, key))]
    return [path] if type(document) in (int, float, bool) else []


def _put(document: dict[str, Any], path: tuple[Any, ...], change: Callable[[Any], Any]) -> dict[str, Any]:
    changed: Any = copy.deepcopy(document)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = change(inner[path[-1]])
    return dict(changed)


def _other(value: Any) -> Any:
    return not value if type(value) is bool else value + 1 if value > 0.5 else value - 1


@pytest.mark.sampled(4)
@each
def test_any_other_number_in_the_results_is_refused(name: str) -> None:
    *before, last = documents(results_of(name))
    (query,) = last["queries"]
    paths = _numbers(query)
    assert len(paths) >= 6
    for path in paths[:: max(1, len(paths) // 25)]:
        changed = {**last, "queries": [_put(query, path, _other)]}
        found = checked([*before, changed])
        assert isinstance(found[-1], VerificationError) or isinstance(found[0], VerificationError), path


@each
def test_other_counts_are_refused_by_the_digest(name: str) -> None:
    *before, last = documents(results_of(name))
    task, rounds = task_of(name), reports_of(name)
    other = task.queries[0].randomizer.tally(rounds[-1][:-4] + rounds[-1][:4]).written()
    if other == base64.b64decode(last["queries"][0]["tally"]["counts"]):
        other = task.queries[0].randomizer.tally(rounds[-1][4:] + rounds[-1][8:12]).written()
    changed = _put(last, ("queries", 0, "tally", "counts"), lambda _: base64.b64encode(other).decode())
    problems = [str(each) for each in checked([*before, changed]) if isinstance(each, VerificationError)]
    assert any("they have another digest" in problem for problem in problems)


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        (("queries", 0, "tally", "counts"), "AAA", "not in base64"),
        (("queries", 0, "tally", "counts"), "", "its counts are missing"),
        (("queries", 0, "tally", "counts"), "AAAA", "cannot be read"),
        (("queries", 0, "state"), "withheld", "but its counts are not"),
        (("queries", 0, "name"), "other", "are of queries other"),
        (("queries",), [], "are of queries"),
        (("round",), 1, "they name another task or round"),
        (("task", "id"), "00" * 32, "they name another task or round"),
        (("certificate", "signature"), "00" * 64, "not by"),
        (("queries", 0, "tally"), 5, "tally must be an object, but is 5"),
        (("queries", 0, "counts"), 5, "does not follow from the counts"),
        (("queries", 0, "counts", 0, "estimate"), 10**39, "does not follow from the counts"),
    ],
)
def test_damaged_results_are_refused_by_name(path: tuple[Any, ...], value: Any, problem: str) -> None:
    (document,) = documents(results_of("top"))
    (found,) = checked([_put(document, path, lambda _: value)])
    assert isinstance(found, VerificationError)
    assert problem in str(found)
    assert f"0.json: the results {RESULTS_DO_NOT_AGREE}" in str(found)


def test_results_over_time_need_those_of_the_rounds_before() -> None:
    found = documents(results_of("longitudinal-tree"))
    assert found[-1]["queries"][0]["tally"]["rounds"] == [0, 1, 2]
    (alone,) = checked(found[-1:])
    assert "also follow from these rounds, whose results are not here: 0, 1, 2; give them too" in str(alone)
    first, second = checked(found[:2])
    assert isinstance(first, RecomputedResults)
    assert isinstance(second, RecomputedResults)


def test_texts_that_were_looked_up_are_looked_up_again() -> None:
    (results,) = results_of("text")
    (document,) = documents([decoded(results, WORDS)])
    (found,) = checked([document])
    assert isinstance(found, RecomputedResults)
    assert (found.queries, dict(found.left)) == (("drink",), {})
    for path in _numbers(document["queries"][0]):
        (problem,) = checked([{**document, "queries": [_put(document["queries"][0], path, _other)]}])
        assert isinstance(problem, VerificationError), path


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("notes", ["whatever"]),
        ("notes", ["of 5 looked up, 99 are listed: on average at most 5 % of those listed are there by chance alone"]),
        ("counts", [{"category": "forged", "estimate": 99999}]),
        ("counts", []),
        ("answered", {"estimate": 1}),
        ("beginnings", []),
        ("share", 1),
    ],
)
def test_other_texts_and_notes_are_refused(member: str, value: Any) -> None:
    (document,) = documents([decoded(results_of("text")[0], WORDS)])
    document["queries"][0][member] = value
    (problem,) = checked([document])
    assert isinstance(problem, VerificationError)
    # Notes beside what nobody looked up switch nothing off either.
    (plain,) = documents(results_of("text"))
    plain["queries"][0] |= {"notes": [], member: value}
    assert isinstance(checked([plain])[0], VerificationError)


@pytest.mark.parametrize("name", [name for name in KINDS if KINDS[name].rounds > 1])
def test_estimates_over_time_follow_from_the_rounds_that_the_certificate_composes(name: str) -> None:
    """Left out or taken from later, with estimates that do follow from those that are named."""
    results = results_of(name)
    task, rounds = task_of(name), reports_of(name)
    for number, kept in ((2, [0]), (1, [])):
        history = history_of(task, rounds)
        chosen = results_of_history(task, [*(history[each] for each in kept), history[number]])
        other = RoundResults(results[number].id, chosen, results[number].certificate)
        found = checked(documents([*results[:number], other]))
        assert "stated to follow from" in str(found[0] if isinstance(found[0], VerificationError) else found[-1])


@pytest.mark.parametrize(
    "changed",
    [
        {"valid": 10**6, "reports": 10**6},
        {"state": "withheld", "valid": 3, "reports": 7, "left_out": {"malformed": 99}},
    ],
)
def test_without_counts_the_numbers_of_reports_are_held_to_all_the_same(changed: dict[str, Any]) -> None:
    task, rounds = task_of("top"), reports_of("top")
    certificate = certificate_of(task, rounds)
    (result,) = published(task, rounds, certificate).queries
    changed = {**changed, **({"state": QueryState(changed["state"])} if "state" in changed else {})}
    other = replace(result, counts=b"", estimates=None, **changed)
    with pytest.raises(CountsDiffer, match="were counted"):
        check_published([other], task, 0, read_certified(certificate))


def test_counts_beside_a_table_are_refused() -> None:
    (results,) = results_of("text")
    (query,) = results.queries
    assert query.estimates is not None
    other = replace(query, counts=query.estimates.table)
    certified = read_certified(results.certificate)
    with pytest.raises(CountsDiffer, match="counts and a table"):
        check_published([other], certified.task, 0, certified)


def test_the_digest_is_over_the_bytes_that_are_documented() -> None:
    """Made by hand as docs/reference/formats-results.md says: label, task, round, each query's numbers, big-endian."""
    from hashlib import sha256

    task = task_of("top")
    tally = task.queries[0].randomizer.tally(reports_of("top")[0])
    body = b"".join(int(count).to_bytes(8, "big") for count in tally.counts)
    parts = [(0).to_bytes(4, "big"), (DEVICES).to_bytes(8, "big"), bytes(8), b"\x01", (12).to_bytes(8, "big"), body]
    made = sha256(b"hubbub/v1 counts\0" + task.id + (3).to_bytes(4, "big") + b"".join(parts)).digest()
    counted = Counted(DEVICES, DEVICES, {}, tally)
    assert counts_digest(task, 3, [counted]) == made
    withheld = sha256(b"hubbub/v1 counts\0" + task.id + bytes(4) + bytes(4) + (7).to_bytes(8, "big") + bytes(17))
    assert counts_digest(task, 0, [Counted(DEVICES, 7, {}, None)]) == withheld.digest()


def test_hashed_counts_have_one_digest_in_whichever_order_reports_came() -> None:
    task = task_of("hashed")
    reports = np.frombuffer(reports_of("hashed")[0], dtype=">u4")
    digests = {
        counts_digest(task, 0, [Counted(DEVICES, DEVICES, {}, task.queries[0].randomizer.tally(order.tobytes()))])
        for order in (reports, reports[::-1])
    }
    assert len(digests) == 1


# Files


def test_a_folder_of_results_is_a_history_and_each_is_made_again(tmp_path: Path) -> None:
    results = results_of("longitudinal-tree")
    for number, document in enumerate(documents(results)):
        (tmp_path / f"results-{number}.json").write_text(json.dumps(document, indent=2))
    (tmp_path / "certificate-0.json").write_bytes(results[0].certificate)
    found = read_histories([tmp_path], Pins())
    assert found.problems == ()
    assert len(found.results) == len(results)
    (history,) = found.histories
    assert [held.path.name for held in history.certificates] == ["certificate-0.json"] + [
        f"results-{number}.json" for number in range(1, len(results))
    ]
    changed = _put(documents(results)[1], ("queries", 0, "valid"), lambda valid: valid - 1)
    (tmp_path / "results-1.json").write_text(json.dumps(changed))
    texts = [str(problem) for problem in read_histories([tmp_path], Pins()).problems]
    assert any("valid reports of 120 were counted" in text for text in texts)


def test_a_certificate_and_its_results_are_of_one_round_and_others_are_not(tmp_path: Path) -> None:
    results = results_of("longitudinal-tree")
    paths = [tmp_path / "c.json", tmp_path / "r.json", tmp_path / "other.json"]
    paths[0].write_bytes(results[0].certificate)
    paths[1].write_text(json.dumps(documents(results)[0]))
    paths[2].write_bytes(results[1].certificate)
    one = one_round(paths[:2])
    assert one is not None
    assert (one.path, one.certificate, [file.path for file in one.results]) == (
        paths[0],
        results[0].certificate,
        [paths[1]],
    )
    alone = one_round(paths[1:2])
    assert alone is not None
    assert (alone.path, alone.certificate) == (paths[1], results[0].certificate)
    assert one_round(paths) is None
    assert one_round([tmp_path]) is None
    with pytest.raises(OSError, match="No such file"):
        one_round([tmp_path / "none.json"])
    paths[1].write_text(json.dumps({**documents(results)[0], "certificate": {}}))
    with pytest.raises(VerificationError, match="have no readable certificate"):
        one_round(paths[1:2])
