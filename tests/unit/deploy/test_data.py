"""Data: files become devices and questions, and their truths are what they are."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from hubbub.deploy.data import SumSpec, flights, from_file, query_name, sample, truth_of
from hubbub.protos.errors import HubbubError
from hubbub.queries.histogram import Histogram
from hubbub.queries.number import Number

CSV = "city,minutes,note\nA,10,x\nB,,y\nA,400,\n,-5,z\n"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "trips of 2020.csv"
    path.write_text(CSV)
    return path


def test_columns_become_questions_optional_where_fields_are_empty(table: Path) -> None:
    dataset = from_file(table, ["city"], [SumSpec("minutes", 0.0, 100.0)])
    assert dataset.name == "trips_of_2020"
    assert dataset.questions == (
        Histogram("city", ("A", "B"), optional=True),
        Number("minutes", 0.0, 100.0, "", optional=True),
    )
    assert dataset.answers.to_pylist()[3] == {"city": None, "minutes": -5.0}


def test_truth_is_of_clipped_values_with_the_raw_mean_beside(table: Path) -> None:
    dataset = from_file(table, ["city"], [SumSpec("minutes", 0.0, 100.0)])
    city, minutes = (truth_of(dataset, question) for question in dataset.questions)
    assert city == {("answered", None): 3, ("count", "A"): 2, ("count", "B"): 1}
    assert minutes == {("answered", None): 3, ("sum", None): 110.0, ("mean", None): 110 / 3, ("raw_mean", None): 135.0}


def test_parquet_is_read_like_csv(tmp_path: Path) -> None:
    path = tmp_path / "trips.parquet"
    parquet.write_table(pa.table({"city": ["A", "B"], "minutes": [1.5, float("nan")]}), path)
    dataset = from_file(path, ["city"], [SumSpec("minutes", 0.0, 9.0)])
    assert dataset.answers.to_pylist() == [{"city": "A", "minutes": 1.5}, {"city": "B", "minutes": None}]


@pytest.mark.parametrize(
    ("histograms", "sums", "says"),
    [
        ([], [], "at least one"),
        (["town"], [], "city, minutes, note"),
        ([], [SumSpec("note", 0.0, 1.0)], "does not hold numbers"),
        (["city", "city"], [], "same name"),
    ],
)
def test_what_does_not_fit_is_refused(table: Path, histograms: list[str], sums: list[SumSpec], says: str) -> None:
    with pytest.raises(HubbubError, match=says):
        from_file(table, histograms, sums)


@pytest.mark.parametrize("text", ["minutes", "minutes:1", "minutes:a:b", ":0:1"])
def test_malformed_sums_are_refused(text: str) -> None:
    with pytest.raises(HubbubError, match="COLUMN:LOWER:UPPER"):
        SumSpec.parse(text)


def test_column_names_may_hold_colons() -> None:
    assert SumSpec.parse("a:b:-30:180") == SumSpec("a:b", -30.0, 180.0)


def test_samples_are_the_same_for_the_same_seed_and_hold_no_device_twice(tmp_path: Path) -> None:
    path = tmp_path / "numbers.csv"
    path.write_text("\n".join(["number", *map(str, range(500))]))
    dataset = from_file(path, [], [SumSpec("number", 0.0, 499.0)])
    first, again, other = (sample(dataset, 100, seed).answers["number"].to_pylist() for seed in (1, 1, 2))
    assert first == again != other
    assert len(set(first)) == 100


@pytest.mark.parametrize("devices", [1, 5])
def test_sample_sizes_out_of_range_are_refused(table: Path, devices: int) -> None:
    with pytest.raises(HubbubError, match=str(devices)):
        sample(from_file(table, ["city"], []), devices, 1)


@pytest.mark.parametrize(("column", "name"), [("dep delay (min)", "dep_delay_min_"), ("1st", "c_1st"), ("é", "c__")])
def test_query_names_are_ones_a_task_allows(column: str, name: str) -> None:
    assert query_name(column) == name


def test_flights_are_all_of_2013() -> None:
    dataset = flights()
    assert dataset.devices == 336_776
    carrier, delay = (truth_of(dataset, question) for question in dataset.questions)
    assert (len([row for row in carrier if row[0] == "count"]), carrier["count", "UA"]) == (16, 58_665)
    assert dataset.devices - delay["answered", None] == 8_255
