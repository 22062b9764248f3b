"""Tasks, rounds and rows are chosen as people name them; what is not there is named with what is."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from unit.results.test_saved import COMMUTE
from unit.results.test_table import ROW, made

from hubbub.protos.errors import TaskError, UsageError
from hubbub.protos.records.results import RoundId
from hubbub.results import ResultsTable, connect, keys_in, open_saved
from hubbub.results.checked import Trust
from hubbub.results.selection import chosen_rounds

FOUND = [RoundId(bytes(32), "usage", number) for number in (0, 1, 4)]

TABLE = made(
    *(replace(ROW, round=number, category=category) for number in (0, 1) for category in ("a", "b")),
    replace(ROW, query="speed", statistic="mean", category=None, group=(("region", "north"),)),
    replace(ROW, round=2, state="withheld", statistic=None, category=None, estimate=None, reason="too few are valid"),
)


@pytest.mark.parametrize(
    ("wanted", "chosen"),
    [(None, {0, 1, 4}), ([4, 0, 4], {0, 4}), (range(2), {0, 1}), (np.array([1]), {1}), ({4}, {4})],
)
def test_rounds_are_numbers_in_anything_that_is_gone_through(wanted: Any, chosen: set[int]) -> None:
    assert chosen_rounds(FOUND, wanted) == chosen


@pytest.mark.parametrize("wanted", [3, np.array(3), "0", ["0"], [0.0], [True], [None]])
def test_rounds_that_are_no_numbers_in_a_list_are_refused_with_an_example(wanted: Any) -> None:
    with pytest.raises(UsageError, match=r"whole numbers in a list, such as rounds=\[0, 3\]; got"):
        chosen_rounds(FOUND, wanted)


@pytest.mark.parametrize(
    ("wanted", "rows"),
    [
        ({"category": ["a", "b"]}, 4),
        ({"category": {"b"}, "round": range(2)}, 2),
        ({"round": np.array([0, 1]), "query": "q"}, 4),
        ({"round": 0.0}, 3),
        ({"round": (0, 1)}, 5),
        ({"round": np.array(0)}, 3),
        ({"round_begins": [ROW.round_begins]}, 6),
        ({"category": None}, 2),
        ({"category": ["a", None]}, 4),
        ({"group": (("region", "north"),)}, 1),
        ({"group": [(), (("region", "north"),)]}, 6),
        ({"category": "c"}, 0),
        ({"category": []}, 0),
        ({}, 6),
    ],
)
def test_rows_are_chosen_by_one_value_or_by_several(wanted: dict[str, Any], rows: int) -> None:
    assert len(TABLE.where(**wanted)) == rows


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        ({"round": "0"}, "round of a row is a number; got '0', and rows have 0, 1, 2"),
        ({"round": [0, "1"]}, "round of a row is a number; got '1'"),
        ({"category": 3}, "category of a row is a text; got 3, and rows have 'a', 'b', None"),
        ({"round": True}, "round of a row is a number; got True"),
        ({"round": lambda: 0}, "round of a row is a number; got <function"),
        ({"round": b"0"}, "round of a row is a number; got b'0'"),
        ({"round_begins": datetime(2026, 1, 1)}, "is a time with its zone; got datetime.datetime"),
        ({"round_begins": date(2026, 1, 1)}, "round_begins of a row is a time with its zone; got datetime.date"),
        ({"significant": 1}, "significant of a row is True or False; got 1"),
        ({"group": "north"}, "group of a row is a tuple of pairs"),
        ({"group": {"region": "north"}}, "group of a row is a tuple of pairs; got 'region'"),
        ({"color": "red"}, "rows have no color; they have task"),
    ],
)
def test_a_value_that_no_row_can_have_is_refused(wanted: dict[str, Any], says: str) -> None:
    for call in (TABLE.where, TABLE.one):
        with pytest.raises(UsageError, match=says):
            call(**wanted)


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        ({"query": "speeed"}, r"no row has query='speeed'; rows have 'q', 'speed'$"),
        ({"query": "q", "round": 0, "statistic": "mean"}, "no row has query='q' and round=0 and statistic='mean'$"),
        (
            {"query": "q", "round": 2, "category": "a"},
            "no row has .*: q is withheld in round 2, as too few are valid$",
        ),
        ({"category": "a"}, "2 rows have category='a', not one; they differ in round: name one value of each"),
        ({"query": "q", "statistic": "count"}, "4 rows have .*, not one; they differ in round, category"),
        ({}, "6 rows are in the table, not one; they differ in round, query, statistic, category, group"),
    ],
)
def test_one_row_that_is_not_one_says_what_to_add_or_what_is_there(wanted: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        TABLE.one(**wanted)


def test_an_empty_table_says_so() -> None:
    with pytest.raises(UsageError, match="the table has no rows"):
        ResultsTable((), TABLE.trust, ()).one()
    assert TABLE.one(query="speed").statistic == "mean"


def test_nothing_is_not_verified(tmp_path: Path) -> None:
    """A table of no rows, rounds or files never says that it was verified."""
    with pytest.raises(UsageError, match=r"rounds is empty; leave it out for all, or name some of 0"):
        open_saved(COMMUTE).read(rounds=[])
    none = open_saved(COMMUTE).read().where(category="nobody's")
    for words in (repr(none), none._repr_html_()):
        assert "Nothing was verified: the table has no rows." in words
        assert "Verified: signatures" not in words
    assert not Trust.joined([]).verified
    with pytest.raises(UsageError, match="no results in no file"):
        open_saved()
    with pytest.raises(UsageError, match=f"no results in {tmp_path}; "):
        open_saved(COMMUTE, tmp_path)


@pytest.mark.parametrize("verify", [0, None, "", np.bool_(False), np.array([True, False])])
def test_that_nothing_is_verified_is_said_as_false_alone(verify: Any) -> None:
    """A 0 or an empty text of somebody's settings read results without a check."""
    for call in (lambda: open_saved(COMMUTE, verify=verify), lambda: connect("127.0.0.1:1", COMMUTE, verify=verify)):
        with pytest.raises(UsageError, match=r"verify is .*; give True, or False to read what was not checked"):
            call()


@pytest.mark.parametrize("given", [3, ["reader"], b"reader", np.int64(3)])
def test_a_folder_of_a_reader_is_a_text_or_a_path(given: Any) -> None:
    with pytest.raises(UsageError, match=r"folder is .*; name the folder of a reader as a text or a Path"):
        connect("127.0.0.1:1", given)
    with pytest.raises(UsageError, match=r"tls is .*; give a TLS of three files"):
        connect("127.0.0.1:1", tls=given)


def test_what_was_opened_is_shown_with_whether_it_is_verified() -> None:
    assert repr(open_saved(COMMUTE)) == "<1 saved rounds of commute; read() verifies>"
    assert repr(open_saved(COMMUTE, verify=False)).endswith("read() does not verify>")


def test_keys_that_are_no_folder_of_keys_are_told_from_each_other(tmp_path: Path) -> None:
    assert keys_in(COMMUTE) == keys_in(str(COMMUTE))
    with pytest.raises(UsageError, match=r"there is no folder .*/gone; name one with operator.pub.pem"):
        keys_in(tmp_path / "gone")
    with pytest.raises(UsageError, match=r"is a file; name the folder of operator.pub.pem"):
        keys_in(COMMUTE / "operator.pub.pem")
    with pytest.raises(UsageError, match=r"has none of the keys .*; name the folder `trust`"):
        keys_in(tmp_path)
    (tmp_path / "trust").mkdir()
    with pytest.raises(UsageError, match=f"has none of the keys .*; name {tmp_path}/trust"):
        keys_in(tmp_path)
    for name in ("operator.pub.pem", "hop-3.pub.pem"):
        shutil.copy(COMMUTE / "operator.pub.pem", tmp_path / name)
    with pytest.raises(TaskError, match=r"hop-3\.pub\.pem is not in the chain"):
        keys_in(tmp_path)
    with pytest.raises(UsageError, match="keys is a folder of public keys, not dict"):
        open_saved(COMMUTE, keys={})  # type: ignore[arg-type]
    assert open_saved(COMMUTE / "results.json", keys=None).rounds()


def test_a_list_of_files_is_refused_with_how_to_give_it() -> None:
    with pytest.raises(UsageError, match=r"a path is a text or a Path, not \[.*open_saved\(\*paths\)"):
        open_saved([str(COMMUTE)])  # type: ignore[arg-type]
