"""The documents that a client must refuse, as they are given to clients in other languages: the Python client does."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from hubbub.client.session.rounds import VerifiedRoundKeys
from hubbub.client.session.trust import trusted_task
from hubbub.protos.errors import HubbubError
from hubbub.protos.identity.documents import SignedDocument
from hubbub.protos.identity.keys import KeySet
from hubbub.protos.identity.successions import read_successions
from hubbub.protos.task.task import connected, followed
from vectors.make_refused import FILE, encoded, vector_task

KEPT = json.loads(FILE.read_bytes())
KEYS = {role: bytes.fromhex(key) for role, key in KEPT["keys"].items()}
WORDS = {
    "canonical": r"canonical|JSON|twice|not a signed task|cut short",
    "signature": r"sign|fork|begins",
    "format": r"hubbub-(task|key)/",
    "value": r"\S",
    "round": r"another round",
    "task": r"another task",
    "role": r"another role",
    "suite": r"another suite|unknown suite|suite",
    "time": r"valid from",
}
"""What an error says, by the word for what is wrong."""


def ids(cases: list[dict[str, str]]) -> list[str]:
    return [each["what"] for each in cases]


def test_the_file_is_what_its_program_writes() -> None:
    assert encoded() == FILE.read_bytes()


@pytest.mark.parametrize("case", KEPT["tasks"], ids=ids(KEPT["tasks"]))
def test_a_task_with_one_thing_wrong_is_refused(case: dict[str, str]) -> None:
    document = base64.b64decode(case["document"])
    if case["because"] is None:
        assert trusted_task(document, KEYS["operator"], KEYS["shuffler"]) == vector_task()
        return
    with pytest.raises(HubbubError, match=WORDS[case["because"]]):
        trusted_task(document, KEYS["operator"], KEYS["shuffler"])


@pytest.mark.parametrize("case", KEPT["round_keys"]["sets"], ids=ids(KEPT["round_keys"]["sets"]))
def test_keys_of_a_round_with_one_thing_wrong_are_refused(case: dict[str, Any]) -> None:
    about = KEPT["round_keys"]
    shuffler, analyzer = (
        SignedDocument(base64.b64decode(case[role]["body"]), bytes.fromhex(case[role]["signature"]))
        for role in ("shuffler", "analyzer")
    )
    keys = KeySet(shuffler, analyzer)
    documents = [base64.b64decode(each) for each in case["successions"]]

    def read() -> None:
        task = vector_task()
        task = followed(task, connected(task, read_successions(documents)))
        VerifiedRoundKeys.read(keys, task, about["round"]).sealer(about["now"])

    if case["because"] is None:
        read()
        return
    with pytest.raises(HubbubError, match=WORDS[str(case["because"])]):
        read()
