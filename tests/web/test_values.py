"""The TypeScript client takes and refuses the values of a task that a Python device takes and refuses."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from web.test_vectors import failed

from hubbub.client.session.trust import trusted_task
from hubbub.protos.errors import HubbubError
from hubbub.protos.identity.documents import canonical, parse_canonical
from support.web_client import run_program, vector, vector_folders

OPERATOR, SHUFFLER = (Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32) for seed in (11, 12))
"""The keys of refused.json."""

DAY, LAST = 86_400, 3650 * 86_400


def _put(*path: str | int, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(task: dict[str, Any]) -> None:
        for name in path[:-1]:
            task = task[name]
        task[path[-1]] = value

    return change


CHANGES: dict[str, tuple[bool, Callable[[dict[str, Any]], None]]] = {
    "a name that begins with a byte order mark": (True, _put("queries", 0, "name", value="\ufeffcarrier")),
    "a category that ends with one": (True, _put("queries", 0, "categories", 0, value="AA\ufeff")),
    "a name that ends with a space": (False, _put("queries", 0, "name", value="carrier\u3000")),
    "a name of what objects inherit": (True, _put("queries", 0, "name", value="__proto__")),
    "a unit of one space": (True, _put("queries", 1, "unit", value=" ")),
    "a purpose of one space": (False, _put("about", "purpose", value=" ")),
    "the longest round": (True, _put("schedule", "length", value=LAST)),
    "a longer round": (False, _put("schedule", "length", value=LAST + 1)),
    "the longest grace": (True, _put("schedule", "grace", value=365 * DAY)),
    "a longer grace": (False, _put("schedule", "grace", value=365 * DAY + 1)),
    "the first year": (True, _put("schedule", "start", value="1970-01-01T00:00:00Z")),
    "the year before": (False, _put("schedule", "start", value="1969-12-31T23:59:59Z")),
    "the last second at which it may start": (True, _put("schedule", "start", value="9999-12-31T19:58:59Z")),
    "the second after": (False, _put("schedule", "start", value="9999-12-31T19:59:00Z")),
    "the largest delta": (True, _put("privacy", "delta", value=1 - 2**-53)),
    "a delta of 1": (False, _put("privacy", "delta", value=1)),
}


def _signed(task: dict[str, Any]) -> bytes:
    content = b"hubbub-task/1\0" + canonical(task)
    signatures = {"operator": OPERATOR.sign(content).hex(), "shuffler": SHUFFLER.sign(content).hex()}
    return canonical({"signatures": signatures, "task": task})


def _is_taken(document: bytes) -> bool:
    try:
        trusted_task(document, OPERATOR.public_key().public_bytes_raw(), SHUFFLER.public_key().public_bytes_raw())
    except HubbubError:
        return False
    return True


def test_values_at_their_limits_are_taken_and_those_beyond_refused_as_a_python_device_does(
    built: None, tmp_path: Path
) -> None:
    vectors = json.loads(vector("refused.json").read_text())
    sample = parse_canonical(base64.b64decode(vectors["tasks"][0]["document"]))["task"]
    taken = {}
    for what, (good, change) in CHANGES.items():
        change(task := copy.deepcopy(sample))
        document = _signed(task)
        taken[what] = _is_taken(document)
        because = None if good else "value"
        vectors["tasks"].append({"what": what, "because": because, "document": base64.b64encode(document).decode()})
    assert taken == {what: good for what, (good, _) in CHANGES.items()}
    (tmp_path / "refused.json").write_text(json.dumps(vectors))
    assert failed(run_program("vectors.js", vector_folders(tmp_path))) == {}
