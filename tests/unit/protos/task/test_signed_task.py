"""A signed task comes back as it was, or not at all."""

import json
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.protos.errors import HubbubError, SignatureError, TaskError
from hubbub.protos.identity.documents import canonical, sign
from hubbub.protos.identity.formats import SIGNED as KINDS
from hubbub.protos.identity.formats import TASK as TASKS
from hubbub.protos.identity.keys import Identity
from hubbub.protos.task.admission import ENROLLED, OPEN, AdmissionPolicy, Mode
from hubbub.protos.task.signed_task import SignedTask, read_task
from hubbub.protos.task.task import task_content
from hubbub.queries.questions.histogram import Histogram
from support.krr_queries import unary_query
from support.messages import FORMAT_THAT_IS_READ
from support.samples import HALF, QUERIES, Parties, sample_task, signed

PARTIES = Parties.generate()
STRANGER = Identity.generate()
SEAT = unary_query(Histogram("seat", ("window", "aisle"), optional=True), HALF, 2**29)
TASK = sample_task(PARTIES, queries=(*QUERIES, SEAT))
SIGNED = signed(TASK, PARTIES)
CONTENT = task_content(TASK)


def check(task: SignedTask) -> None:
    assert task.check(PARTIES.operator.public, PARTIES.shuffler.public) == task.task


def test_signed_task_comes_back_as_it_was() -> None:
    again = SignedTask.decode(SIGNED.encode())
    assert again == SIGNED
    assert again.task.id == TASK.id
    assert again.encode() == SIGNED.encode()
    check(again)


def test_unsigned_task_is_read_and_does_not_check() -> None:
    unsigned = SignedTask.decode(SignedTask(TASK).encode())
    assert unsigned == SignedTask(TASK)
    with pytest.raises(SignatureError, match="the operator has not signed"):
        check(unsigned)
    with pytest.raises(SignatureError, match="the shuffler has not signed"):
        check(unsigned.signed_by(PARTIES.operator))


def test_only_operator_and_shuffler_sign() -> None:
    for identity in (PARTIES.analyzer, STRANGER):
        with pytest.raises(SignatureError, match="only those two"):
            SignedTask(TASK).signed_by(identity)


def test_task_of_other_parties_is_refused_though_it_is_signed() -> None:
    other = Parties.generate()
    with pytest.raises(SignatureError, match="another operator"):
        signed(sample_task(other), other).check(PARTIES.operator.public, other.shuffler.public)
    with pytest.raises(SignatureError, match="another shuffler"):
        signed(sample_task(other), other).check(other.operator.public, PARTIES.shuffler.public)


def test_signatures_do_not_stand_in_for_each_other() -> None:
    operator, shuffler = SIGNED.operator_signature, SIGNED.shuffler_signature
    for pair in ((shuffler, operator), (operator, operator), (shuffler, shuffler)):
        with pytest.raises(SignatureError):
            check(SignedTask(TASK, *pair))


def test_signature_under_another_label_is_refused() -> None:
    for kind in set(KINDS) - {TASKS}:
        forged = sign(kind.format, TASK.canonical, PARTIES.operator.key)
        with pytest.raises(SignatureError):
            check(SignedTask(TASK, forged, SIGNED.shuffler_signature))


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict):
        for key, member in value.items():
            yield (*path, key)
            yield from paths(member, (*path, key))
    elif isinstance(value, list):
        for index, member in enumerate(value):
            yield (*path, index)
            yield from paths(member, (*path, index))


def at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


PATHS = list(paths(CONTENT))
NUMBER_LIKE: tuple[Any, ...] = (None, True, False, 0, 1, -1, 1.5, 10**40, 1e308)
REPLACEMENTS: tuple[Any, ...] = (*NUMBER_LIKE, "", "a", "AA", [], {}, [1, 2], {"a": 1})


def refuse(content: Any) -> None:
    """Refused: either the task is none, or no party has signed it."""
    signatures = SIGNED.as_json()["signatures"]
    with pytest.raises((TaskError, SignatureError)):
        check(SignedTask.from_json({"signatures": signatures, "task": content}))


def written(content: Any) -> bytes | None:
    try:
        return canonical(content)
    except SignatureError:
        return None


@pytest.mark.parametrize("path", PATHS, ids=lambda path: ".".join(map(str, path)))
def test_every_member_is_guarded(path: tuple[Any, ...]) -> None:
    for replacement in REPLACEMENTS:
        content = task_content(TASK)
        at(content, path[:-1])[path[-1]] = replacement
        if written(content) != TASK.canonical:
            refuse(content)
    content = task_content(TASK)
    del at(content, path[:-1])[path[-1]]
    refuse(content)


NUMBERS = [path for path in PATHS if type(at(CONTENT, path)) in (int, float)]


@pytest.mark.parametrize("path", NUMBERS, ids=lambda path: ".".join(map(str, path)))
def test_whole_float_is_read_as_a_float_and_a_count_is_never_one(path: tuple[Any, ...]) -> None:
    content = task_content(TASK)
    value = at(content, path)
    at(content, path[:-1])[path[-1]] = float(value) if isinstance(value, int) else int(value)
    if isinstance(value, float) and value.is_integer():
        assert repr(read_task(content)) == repr(TASK)
    else:
        with pytest.raises(TaskError):
            read_task(content)


FLOATS = [path for path in NUMBERS if isinstance(at(CONTENT, path), float)]


@pytest.mark.parametrize("path", FLOATS, ids=lambda path: ".".join(map(str, path)))
def test_truth_value_is_not_a_number(path: tuple[Any, ...]) -> None:
    for value in (True, False):
        content = task_content(TASK)
        at(content, path[:-1])[path[-1]] = value
        with pytest.raises(TaskError):
            read_task(content)


# What a task states

SECOND = STRANGER.public


@pytest.mark.parametrize(
    "admission", [ENROLLED, OPEN, AdmissionPolicy(Mode.ENROLLED, SECOND), AdmissionPolicy(Mode.MTLS)], ids=range(4)
)
def test_an_admission_is_signed_and_read_again(admission: AdmissionPolicy) -> None:
    task = replace(TASK, admission=admission)
    again = SignedTask.decode(signed(task, PARTIES).encode())
    check(again)
    assert again.task == task
    assert task_content(task)["admission"] == admission.content()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ({"mode": "known", "second_authority": None}, "'known' is not a valid Mode"),
        ({"mode": "open", "second_authority": SECOND.hex()}, "leave one of them out"),
        ({"mode": "enrolled", "second_authority": "ab"}, "must be 64 lower-case hex digits"),
        ({"mode": "enrolled", "second_authority": PARTIES.operator.public.hex()}, "is the operator or the shuffler"),
        ({"mode": "enrolled"}, "second_authority"),
        ({"mode": "enrolled", "second_authority": None, "more": 1}, "members that are not read here"),
    ],
    ids=range(6),
)
def test_an_admission_that_no_draft_could_say_is_refused(content: Any, says: str) -> None:
    with pytest.raises(TaskError, match=says):
        read_task({**CONTENT, "admission": content})


@pytest.mark.parametrize("format_", ["hubbub-task/2", "hubbub-task/0", "hubbub-key/1", "", None, 1, ["hubbub-task/1"]])
def test_another_version_is_refused_by_name_in_whatever_form_it_is(format_: Any) -> None:
    value = {**SIGNED.as_json(), "task": {**CONTENT, "format": format_}}
    for document in (canonical(value), json.dumps(value, indent=1).encode()):
        with pytest.raises(SignatureError) as caught:
            SignedTask.decode(document)
        named = "it names no format" if format_ is None else f"its format is {format_!r}"
        assert f"{named}; {FORMAT_THAT_IS_READ} hubbub-task/1" in str(caught.value)


@pytest.mark.parametrize(
    "path", [(), ("schedule",), ("privacy",), ("identities",), ("queries", 0), ("queries", 1), ("queries", 2)]
)
def test_unknown_member_is_refused(path: tuple[Any, ...]) -> None:
    content = deepcopy(CONTENT)
    at(content, path)["more"] = 1
    with pytest.raises(TaskError):
        read_task(content)


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        (("format",), "hubbub-task/2", "'hubbub-task/2'; this version of hubbub reads hubbub-task/1"),
        (("suite",), "none", "suite 'none'"),
        (("queries", 0, "gamma", 0), 0, r"gamma is \[0, 4294967296\]; it must be"),
        (("queries", 0, "gamma", 0), 2**32, "at 1 no answer"),
        (("queries", 0, "gamma", 1), 2**31, "it must be"),
        (("queries", 1, "levels"), 0, r"query\[1\]\.levels is 0; it must be a whole number from 1 to 999998"),
        (("queries", 1, "levels"), 999_999, "to 999998"),
        (
            ("queries", 2, "truthful", 0),
            2**29,
            r"query\[2\]\.other is 536870912; it must be below truthful, which is 536870912",
        ),
        (("queries", 2, "other", 0), 0, r"query\[2\]\.other is \[0, 4294967296\]; it must be"),
        (("queries", 0, "categories"), ["AA", "AA"], "has 'AA' twice"),
        (("queries", 1, "name"), "carrier", "again"),
        (("queries", 1, "lower"), 180.0, "not below upper"),
        (("privacy", "delta"), 1.0, "below 1"),
        (("minimum_reports",), 1, "from 2"),
        (("schedule", "start"), "2026-1-1T00:00:00Z", "members that are not read here"),
        (("schedule", "start"), "2026-01-01T00:00:00", "not a task of"),
        (("schedule", "start"), "1969-01-01T00:00:00Z", "before 1970"),
        (("identities", "analyzer"), PARTIES.operator.public.hex(), "operator and analyzer have the same key"),
        (("identities", "analyzer"), "00" * 31, "must be 64 lower-case hex digits"),
        (("identities", "analyzer"), PARTIES.analyzer.public.hex().upper(), "lower-case hex"),
        (("queries",), [], "1 to 64 queries"),
    ],
    ids=range(21),
)
def test_frozen_task_is_held_to_the_limits_of_a_draft(path: tuple[Any, ...], value: Any, says: str) -> None:
    content = deepcopy(CONTENT)
    at(content, path[:-1])[path[-1]] = value
    with pytest.raises(TaskError, match=says) as caught:
        read_task(content)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"maximum_reports": 19}, "maximum_reports is 19; it must be a whole number from 20 to"),
        ({"maximum_reports": 10**12 + 1}, "to 1000000000000"),
        ({"maximum_reports": 20.5}, "whole number"),
        ({"maximum_reports": None}, "members that are not read here"),
        ({"privacy": {"large_delta": ""}}, "give the reason in at most 300"),
        ({"privacy": {"large_delta": " "}}, "give the reason in at most 300 printable characters"),
        ({"privacy": {"large_delta": "x" * 301}}, "give the reason in at most 300"),
        ({"privacy": {"large_delta": "\x1b[31m"}}, "printable"),
        ({"privacy": {"large_delta": 1}}, "printable"),
    ],
    ids=range(9),
)
def test_what_a_task_states_is_within_limits(changes: dict[str, Any], says: str) -> None:
    content = deepcopy(CONTENT)
    privacy = content["privacy"] | changes.pop("privacy", {"delta": 1e-3})
    # Without a large δ, it is the words that are wrong, not that they are missing.
    with pytest.raises(TaskError, match=says):
        read_task(content | changes | {"privacy": privacy | {"delta": 1e-3}})


def test_a_large_delta_needs_words() -> None:
    task = replace(TASK, privacy=replace(TASK.privacy, delta=0.9, large_delta=None))
    with pytest.raises(TaskError, match=r"delta is 0.9, but at most 0.005 for minimum_reports = 20.*large_delta"):
        SignedTask.decode(signed(task, PARTIES).encode())
    wanted = replace(task, privacy=replace(task.privacy, large_delta="a test – on nobody"))
    assert SignedTask.decode(signed(wanted, PARTIES).encode()).task == wanted


def test_every_changed_character_of_a_task_file_is_refused() -> None:
    document = SIGNED.encode()
    for place in range(len(document)):
        changed = bytearray(document)
        changed[place] ^= 0x01
        with pytest.raises(HubbubError):
            check(SignedTask.decode(bytes(changed)))


def test_reformatted_task_file_is_refused() -> None:
    with pytest.raises(SignatureError, match="canonical"):
        SignedTask.decode(json.dumps(SIGNED.as_json(), indent=2).encode())


@pytest.mark.parametrize(
    "value",
    [
        *(None, 1, [], {}, {"task": CONTENT}, {"signatures": {}, "task": CONTENT, "more": 1}),
        *({"signatures": [], "task": CONTENT}, {"signatures": {"analyzer": "00" * 64}, "task": CONTENT}),
        *({"signatures": {"operator": None}, "task": CONTENT}, {"signatures": {"operator": "00"}, "task": CONTENT}),
    ],
    ids=range(10),
)
def test_files_of_another_form_are_refused(value: Any) -> None:
    with pytest.raises(SignatureError):
        SignedTask.from_json(value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(JSON)
def test_only_hubbub_errors_come_out_of_any_content(content: Any) -> None:
    with pytest.raises(TaskError):
        read_task(content)


@given(st.dictionaries(st.sampled_from(PATHS), JSON, min_size=1, max_size=3))
def test_only_hubbub_errors_come_out_of_any_changed_content(changes: dict[tuple[Any, ...], Any]) -> None:
    content: Any = deepcopy(CONTENT)
    for path, value in changes.items():
        try:
            at(content, path[:-1])[path[-1]] = value
        except (KeyError, IndexError, TypeError):
            continue
    try:
        task = read_task(content)
    except TaskError:
        return
    assert task.canonical == canonical(content)


@given(st.binary(max_size=60))
def test_only_hubbub_errors_come_out_of_any_bytes(document: bytes) -> None:
    with pytest.raises(HubbubError):
        SignedTask.decode(document)


def test_long_values_do_not_make_long_errors() -> None:
    for path in (("name",), ("format",), ("suite",), ("queries", 0, "kind"), ("schedule", "start"), ("privacy",)):
        content = deepcopy(CONTENT)
        at(content, path[:-1])[path[-1]] = "x" * 100_000
        with pytest.raises(TaskError) as caught:
            read_task(content)
        assert len(str(caught.value)) < 400


NOT_TASKS = {
    "empty": (b"", "an empty file, not a signed task; put the whole"),
    "blank": (b" \n", "an empty file"),
    "TOML": (b'[task]\nname = "usage"\n', "not a signed task; name the file that `hubbub plan` wrote"),
    "not text": (b"\xff\xfe\x00", "not a signed task; name"),
    "zeros": (bytes(100), "not a signed task; name"),
    "entry of a feed": (b'{"body":{"format":"hubbub-feed/1"},"signatures":{},"task":{}}', "an entry of a feed, not a"),
    "other JSON": (b'{"a":1}', "not a signed task, which has exactly the members signatures and task"),
}


@pytest.mark.parametrize(("document", "says"), NOT_TASKS.values(), ids=NOT_TASKS)
def test_a_file_that_is_not_a_task_is_told_as_what_it_is(document: bytes, says: str) -> None:
    with pytest.raises(SignatureError, match=f"^{says}"):
        SignedTask.decode(document)


def test_a_task_that_is_cut_anywhere_is_told_as_cut_short() -> None:
    document = SIGNED.encode()
    for length in range(1, len(document)):
        with pytest.raises(SignatureError, match=r"^cut short, not a whole signed task; put the whole task there$"):
            SignedTask.decode(document[:length])


def test_a_task_in_another_form_of_json_is_still_told_as_that() -> None:
    with pytest.raises(SignatureError, match="canonical"):
        SignedTask.decode(SIGNED.encode() + b"\n")
