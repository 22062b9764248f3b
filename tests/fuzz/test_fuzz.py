"""Documented errors, bounded memory, and one form for everything accepted."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
import tracemalloc
from pathlib import Path
from random import Random
from typing import Any

import pytest
from fuzz.targets import LONGEST_ERROR, TARGETS, NotTheOneForm, Target, readers, same
from hypothesis import example, given, settings
from hypothesis import strategies as st

import hubbub.protos
from hubbub.protos import codec
from hubbub.protos.errors import SignatureError
from hubbub.protos.identity.documents import canonical
from support.mutation import of_bytes, of_json
from support.thoroughness import usually

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "fuzz.json").read_text())

EXAMPLES = usually(60, 200)
"""Mutated and arbitrary inputs for each target in every test run; `make fuzz` goes on with coverage to guide it."""

MEMORY = 32 * 1024 * 1024
"""Bytes that a parser may take at once, at most, for inputs of some kilobytes: generous, and far from a bomb's."""


def mutated(target: Target, number: int) -> bytes:
    """The input that a number stands for."""
    draw = Random(number)
    mutate = target.mutate if draw.random() < 0.8 else of_bytes
    return mutate(draw.choice(target.seeds), draw)


@pytest.mark.parametrize("target", TARGETS.values(), ids=list(TARGETS))
def test_a_target_accepts_what_it_begins_from(target: Target) -> None:
    """Otherwise nothing but refusals would be looked at."""
    assert all(target.run(seed) for seed in target.seeds)


@pytest.mark.parametrize("name", TARGETS)
def test_only_documented_errors_come_out_and_only_one_form_is_accepted(name: str) -> None:
    target = TARGETS[name]

    @settings(max_examples=EXAMPLES // 10 if target.costly else EXAMPLES)
    @given(st.one_of(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.binary(max_size=200)))
    @example(b"")
    @example(b"\x00")
    def holds(drawn: int | bytes) -> None:
        data = mutated(target, drawn) if isinstance(drawn, int) else drawn
        assert target.run(data) in (True, False)  # whatever is raised is a finding

    holds()


@pytest.mark.sampled(29)
@pytest.mark.parametrize("name", [name for name, target in TARGETS.items() if not target.costly])
def test_memory_stays_bounded(name: str) -> None:
    target = TARGETS[name]
    target.run(target.seeds[0])
    tracemalloc.start()
    try:
        for number in range(30):
            target.run(mutated(target, number))
        assert tracemalloc.get_traced_memory()[1] < MEMORY
    finally:
        tracemalloc.stop()


def test_every_reader_of_a_message_and_every_call_is_a_target() -> None:
    every = {name for name, _ in inspect.getmembers(codec, inspect.isfunction) if name.startswith("read_")}
    of_plain_values = {"read_task_id", "read_digest", "read_refusal", "read_wait"}
    assert {f"read_{name}" for name in readers()} == every - of_plain_values | {
        *(f"read_{name}" for name in ("redemptions", "enrolled", "credential_action", "credential_status")),
        "read_begin",
        "read_known",
        "read_round_status",
        "read_incidents",
        *(f"read_{name}" for name in ("secrets", "version", "admitted", "tickets", "redeemed")),
        "read_replication_request",
        "read_replication_reply",
        "read_results",
        "read_tasks",
        "read_task",
    }
    assert {f"message {name}" for name in readers()} <= set(TARGETS)
    contract = Path(hubbub.protos.__path__[0], "v1").glob("*.proto")
    calls = {name for path in contract for name in re.findall(r"^  rpc ([A-Za-z]+)\(", path.read_text(), re.M)}
    assert {f"call {name}" for name in calls} <= set(TARGETS)
    assert len(calls) >= 12


# The fuzzer itself


def generous(data: bytes) -> None:
    """A parser that takes JSON with white space for canonical."""
    try:
        value = json.loads(data)
    except ValueError as error:
        raise SignatureError("no JSON") from error
    same(canonical(value), data)


def crashing(data: bytes) -> None:
    same(data[0], data[0])


def talkative(data: bytes) -> None:
    raise SignatureError("x" * (LONGEST_ERROR + len(data)))


def silent(_data: bytes) -> None:
    raise SignatureError("")


@pytest.mark.parametrize(
    ("accept", "data", "finding"),
    [
        (generous, b'{"a": 1}', NotTheOneForm),
        (crashing, b"", IndexError),
        (talkative, b"x", NotTheOneForm),
        (silent, b"x", NotTheOneForm),
    ],
)
def test_the_fuzzer_sees_what_it_looks_for(accept: Any, data: bytes, finding: type[Exception]) -> None:
    target = Target("broken", accept, (b'{"a":1}',), (SignatureError,), of_json)
    with pytest.raises(finding):
        target.run(data)


# What was found


def content(vector: dict[str, Any]) -> bytes:
    """A vector's bytes: pieces of text or hex, each with how often it stands there."""
    pieces = (bytes.fromhex(piece) if vector["form"] == "hex" else piece.encode() for piece, _ in vector["data"])
    return b"".join(piece * times for piece, (_, times) in zip(pieces, vector["data"], strict=True))


@pytest.mark.parametrize("vector", VECTORS["vectors"], ids=lambda vector: vector["what"])
def test_what_was_found_is_answered_as_documented(vector: dict[str, Any]) -> None:
    target = TARGETS[vector["target"]]
    with pytest.raises(target.errors, match=vector["says"]) as raised:
        target.accept(content(vector))
    assert len(str(raised.value)) <= LONGEST_ERROR
    assert not target.run(content(vector))


def test_no_vector_is_skipped() -> None:
    assert len(VECTORS["vectors"]) == VECTORS["count"] == 16
    assert {vector["target"] for vector in VECTORS["vectors"]} <= set(TARGETS)


def test_the_search_starts_as_make_starts_it() -> None:
    """The folder of a script comes first on Python's path, so a module there must not have the name of Python's own."""
    script = str(Path(__file__).with_name("search.py"))
    done = subprocess.run([sys.executable, script, "nothing"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "no target nothing; there are " in done.stderr
