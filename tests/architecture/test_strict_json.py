"""JSON from outside is read by one reader: no module of the package calls another one."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.source_tree import MODULES, ROOT, parsed

EXCEPTIONS = {
    "protos/strict_json.py": "it is the reader",
    # The accountant imports nothing of hubbub. What it reads has to be the very text that it writes of the value.
    "accountant/spending/entry.py": "the whole text is compared with the canonical one, which has no key twice",
    "service/rpc/connect_json.py": "protobuf's mapping is of values (ParseDict), which the strict reader has read",
}
"""Modules that may call another reader, each with the reason."""

READERS = {
    "json": {"load", "loads", "JSONDecoder", "decoder", "scanner"},
    "pydantic": {"TypeAdapter"},
    "google.protobuf": {"json_format"},
}
"""What reads JSON, by module."""

METHODS = {"model_validate_json", "parse_raw", "validate_json"}
"""Methods of models that read JSON."""

OTHER_PACKAGES = {"orjson", "simplejson", "ujson", "ijson", "yaml"}


def other_readers(path: Path) -> Iterator[str]:
    """What a module uses to read JSON, other than the strict reader."""
    for node in ast.walk(parsed(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names if each.name.split(".")[0] in OTHER_PACKAGES)
            # By its own name, so that no call of it is missed.
            yield from (f"{each.name} as {each.asname}" for each in node.names if each.name in READERS and each.asname)
            yield from (each.name for each in node.names if each.name.startswith("json."))
        elif isinstance(node, ast.ImportFrom):
            names = {each.name for each in node.names}
            yield from (f"{node.module}.{name}" for name in sorted(names & READERS.get(node.module or "", set())))
            if (node.module or "").split(".")[0] in OTHER_PACKAGES or (node.module or "").startswith("json."):
                yield str(node.module)
        elif isinstance(node, ast.Attribute):
            owner = node.value.id if isinstance(node.value, ast.Name) else ""
            if node.attr in METHODS or node.attr in READERS.get(owner, set()):
                yield f"{owner}.{node.attr}"


def test_json_from_outside_is_read_by_the_strict_reader_alone() -> None:
    found = {str(path.relative_to(ROOT)): sorted(set(other_readers(path))) for path in MODULES}
    assert {name: readers for name, readers in found.items() if readers and name not in EXCEPTIONS} == {}
    assert all(found[name] for name in EXCEPTIONS), "an exception that is none any more"


@pytest.mark.parametrize(
    "source",
    [
        "import json\njson.loads('1')",
        "import json\nread = json.load",
        "from json import loads",
        "import json as j\nj.loads('1')",
        "import json.decoder",
        "from json.decoder import JSONDecoder",
        "import json\njson.JSONDecoder().raw_decode('1')",
        "from google.protobuf import json_format",
        "Model.model_validate_json('1')",
        "import orjson",
        "from yaml import safe_load",
    ],
)
def test_the_check_itself_finds_a_reader(source: str, tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(source)
    assert list(other_readers(tmp_path / "module.py"))


def test_writing_json_is_no_reading(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text("import json\njson.dumps(1)\njson.JSONEncoder().encode(1)")
    assert list(other_readers(tmp_path / "module.py")) == []
