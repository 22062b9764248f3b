"""What a wrong setting must be is said in our own words, whatever is wrong with it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import AfterValidator, Field

from hubbub.service.settings import Listen, SettingsError, SettingsTable, load


def _even(value: int) -> int:
    if value % 2:
        raise ValueError("it must be even")
    return value


class Inner(SettingsTable):
    """A table in a table."""

    name: str = "x"


class Every(SettingsTable):
    """A setting of each kind."""

    address: Listen = "h:1"
    count: int = Field(default=1, ge=1, le=9)
    share: float = Field(default=0.5, gt=0, lt=1)
    on: bool = False
    level: Literal["low", "high"] = "low"
    files: tuple[Path, ...] = Field(default=(Path("x"),), min_length=1)
    file: Path = Path("x")
    even: Annotated[int, AfterValidator(_even)] = 2
    inner: Inner = Inner()


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('address = "host"', "'host' is not host:port with a port from 0 to 65535"),
        ("address = 5", "a text, in quotes"),
        ("count = 0", "at least 1"),
        ("count = 10", "at most 9"),
        ("count = 1.5", "a whole number"),
        ('count = "many"', "a whole number"),
        ("share = 0", "above 0"),
        ("share = 1", "below 1"),
        ('share = "half"', "a number"),
        ('on = "perhaps"', "true or false"),
        ("on = 2", "true or false"),
        ('level = "middle"', "'low' or 'high'"),
        ("files = []", "at least 1"),
        ('files = "x"', "in brackets"),
        ("file = 3", "the name of a file, in quotes"),
        ("even = 3", "it must be even"),
        ("inner = 3", "a table of its own"),
    ],
)
def test_a_wrong_setting_is_told_in_our_words(tmp_path: Path, line: str, says: str) -> None:
    path = tmp_path / "some.toml"
    path.write_text(line, encoding="utf-8")
    with pytest.raises(SettingsError) as refused:
        load(path, Every, "service")
    told = str(refused.value)
    assert says in told
    for phrase in ("nput should", "nput is not", "alue error", "alid ", "validation"):
        assert phrase not in told
