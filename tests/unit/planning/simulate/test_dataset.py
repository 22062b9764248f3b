"""Files become devices and questions, and their truths are what they are."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from hubbub.deploy.demo.scenarios.flights import flights
from hubbub.planning.simulate.dataset import (
    SumSpec,
    first_rows,
    from_file,
    notes_of,
    query_name,
    read_answers,
    sample,
    task_name,
    truth_of,
)
from hubbub.planning.simulate.notation import Notation
from hubbub.protos.errors import HubbubError, UsageError
from hubbub.queries.questions.grouped import Grouped
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.questions.number import Number
from hubbub.queries.questions.question import Question
from hubbub.queries.texts.text import Text

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
        ([], [SumSpec("note", 0.0, 1.0)], "does not contain numbers"),
        (["city", "city"], [], "same name"),
    ],
)
def test_what_does_not_fit_is_refused(table: Path, histograms: list[str], sums: list[SumSpec], says: str) -> None:
    with pytest.raises(HubbubError, match=says):
        from_file(table, histograms, sums)


@pytest.mark.parametrize("text", ["minutes", "minutes:1", "minutes:a:b", ":0:1", "minutes:9:0", "minutes:0:inf"])
def test_malformed_sums_are_refused(text: str) -> None:
    with pytest.raises(HubbubError, match="COLUMN:LOWER:UPPER"):
        SumSpec.parse(text)


def test_a_sum_without_a_column_is_told_what_is_missing() -> None:
    """It has two colons, and was told that they are missing."""
    with pytest.raises(HubbubError, match="a column's name and two numbers are expected"):
        SumSpec.parse(":0:1")


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


@pytest.mark.parametrize("column", ["dep delay (min)", "1st", "é", "日本", "a:b", "a_b"])
def test_query_names_are_those_of_the_columns(column: str) -> None:
    assert query_name(column) == column
    assert query_name(unicodedata.normalize("NFD", column)) == column


@pytest.mark.parametrize("column", ["", "a=b", " a", "a\tb", "x" * 64])
def test_a_column_that_no_query_can_be_named_after_is_refused(column: str) -> None:
    with pytest.raises(UsageError, match="rename the column in the file"):
        query_name(column)


def test_columns_with_similar_names_are_two_queries(tmp_path: Path) -> None:
    path = tmp_path / "日本.csv"
    path.write_text("a b,a_b\n1,2\n3,4\n")
    dataset = from_file(path, [], [SumSpec("a b", 0.0, 9.0), SumSpec("a_b", 0.0, 9.0)])
    assert [question.name for question in dataset.questions] == ["a b", "a_b"]
    assert dataset.name == "data"


@pytest.mark.parametrize(
    ("file", "name"), [("trips of 2020.csv.gz", "trips_of_2020"), ("2020.csv", "data_2020"), ("日本.csv", "data")]
)
def test_a_task_is_named_after_its_file(file: str, name: str) -> None:
    assert task_name(Path(file)) == name


def test_infinite_values_and_nan_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "numbers.csv"
    path.write_text("number,other\n1,1\ninf,2\n-inf,3\nnan,4\n,5\n")
    dataset = from_file(path, [], [SumSpec("number", 0.0, 9.0), SumSpec("other", 0.0, 9.0)])
    assert dataset.unusable == {"number": {"infinite": 2, "NaN": 1}}
    assert notes_of(dataset) == ["number: 2 infinite and 1 NaN in the file, counted as no answer"]
    assert dataset.answers["number"].null_count == 4


LINES = "".join(f'{{"size": {size}}}\n' for size in ("1.5", "NaN", "2.5", "Infinity", "-Infinity", "null"))


def test_categories_that_are_numbers_have_no_infinities_as_sums_have_none(tmp_path: Path) -> None:
    path = tmp_path / "sizes.jsonl"
    path.write_text(LINES)
    counted, added = from_file(path, ["size"], []), from_file(path, [], [SumSpec("size", 0.0, 9.0)])
    assert counted.unusable == added.unusable == {"size": {"infinite": 2, "NaN": 1}}
    assert counted.answers["size"].null_count == added.answers["size"].null_count == 4
    assert [question.content()["categories"] for question in counted.questions] == [["1.5", "2.5"]]
    optional = Histogram("size", ("1.5", "2.5"), optional=True)
    assert read_answers("usage", [optional], path, []).unusable == counted.unusable


def test_an_infinity_that_is_a_text_is_a_category_and_is_pointed_out(tmp_path: Path) -> None:
    path = tmp_path / "brands.csv"
    path.write_text("brand\nInfinity\nother\nInfinity\nother\n")
    found = from_file(path, ["brand"], [])
    assert found.unusable == {}
    assert "has 'Infinity', counted as a category; if that means no answer" in notes_of(found)[0]


def test_a_query_that_needs_an_answer_says_how_many_rows_have_none(tmp_path: Path) -> None:
    path = tmp_path / "numbers.csv"
    path.write_text("number,other\n1,1\ninf,2\n,3\n")
    says = r"has 2 rows without an answer, 1 of them infinite, and the query number needs one; .* optional = true"
    with pytest.raises(HubbubError, match=says):
        read_answers("usage", [Number("number", 0.0, 9.0)], path, [])
    optional = Number("number", 0.0, 9.0, optional=True)
    assert [row["number"] for row in read_answers("usage", [optional], path, []).rows()] == [1.0, None, None]


def test_a_wrong_category_is_named_with_its_row_and_column(tmp_path: Path) -> None:
    path = tmp_path / "q.csv"
    path.write_text("n,c\n1,a\n2,\n3,é\n4,é\n")
    says = r"line 4 of .*q\.csv, column 'c', is 'é': the answer to city is not one of its categories; .* 'a', 'b'"
    with pytest.raises(HubbubError, match=says):
        read_answers("usage", [Histogram("city", ("a", "b"), optional=True)], path, ["city=c"])


def test_a_query_takes_one_column(table: Path) -> None:
    with pytest.raises(UsageError, match="names the query city a second time"):
        read_answers("usage", [Histogram("city", ("A", "B"), optional=True)], table, ["city=note", "city=city"])


def test_categories_are_read_as_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "zips.csv"
    path.write_text("zip\n01234\n1234\nNA\nnull\n1e3\ntrue\n")
    (histogram,) = from_file(path, ["zip"], []).questions
    assert histogram == Histogram("zip", ("01234", "1234", "1e3", "NA", "null", "true"))


def test_a_decimal_comma_is_read_if_it_is_stated(tmp_path: Path) -> None:
    path = tmp_path / "prices.csv"
    path.write_text("price;n\n8,350;1\n13,5;NA\n;?\n")
    spec = [SumSpec("price", 0.0, 9.0)]
    with pytest.raises(HubbubError, match=r"line 2 is '8,350', which is 8\.35 with --decimal ,;"):
        from_file(path, [], spec)
    values = from_file(path, [], spec, Notation(decimal=",")).answers["price"].to_pylist()
    assert values == [8.35, 13.5, None]


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (["", " "], "column 'city' has no value in any row; name another column"),
        (["A", "A"], "column 'city' is 'A' in every row; name a column with two values or more"),
        (
            ["A", '"two\nlines"'],
            r"line 3 of .*, column 'city', has unprintable characters, so it is no category: 'two\\nlines'",
        ),
        (["A", "x" * 201], "line 3 of .*, column 'city', is longer than 200 characters"),
    ],
)
def test_a_column_that_is_no_histogram_is_named(rows: list[str], says: str, tmp_path: Path) -> None:
    path = tmp_path / "cities.csv"
    path.write_text("\n".join(["id,city", *(f"1,{row}" for row in rows)]) + "\n")
    with pytest.raises(HubbubError, match=says):
        from_file(path, ["city"], [])


def test_categories_that_are_numbers_are_sorted_as_numbers(tmp_path: Path) -> None:
    path = tmp_path / "sizes.csv"
    path.write_text("size,other\n10,10\n9,9\n-1,x\n9.5,y\n09,1\n")
    sizes, others = from_file(path, ["size", "other"], []).questions
    assert sizes == Histogram("size", ("-1", "09", "9", "9.5", "10"))
    assert others == Histogram("other", ("1", "10", "9", "x", "y"))
    path.write_text("size\n10\nnan\n9\n")
    assert from_file(path, ["size"], []).questions == (Histogram("size", ("10", "9", "nan")),)


def test_a_row_alone_is_no_data(tmp_path: Path) -> None:
    path = tmp_path / "cities.csv"
    path.write_text("city\nA\n")
    with pytest.raises(HubbubError, match="has 1 row; every row is a device"):
        from_file(path, ["city"], [])


@pytest.mark.parametrize(
    ("categories", "rows", "says"),
    [
        (
            30,
            30,
            "column 'id' has 30 categories, a different value in each row: at a usual ε noise exceeds",
        ),
        (1000, 5000, "column 'id' has 1,000 categories, 5 rows each on average: at a usual ε noise"),
        (30, 600, ""),
        (20, 20, ""),
    ],
)
def test_more_categories_than_noise_allows_are_pointed_out(
    categories: int, rows: int, says: str, tmp_path: Path
) -> None:
    path = tmp_path / "ids.csv"
    path.write_text("id\n" + "".join(f"{row % categories}\n" for row in range(rows)))
    notes = notes_of(from_file(path, ["id"], []))
    assert [note.startswith(says) for note in notes] == [True] * bool(says)


def test_one_rule_says_what_no_answer_is(tmp_path: Path) -> None:
    path = tmp_path / "lands.csv"
    path.write_text("land,n\nNA,1\nDE,NA\n ,2\nDE,\n")
    n = SumSpec("n", 0.0, 9.0)
    with pytest.raises(HubbubError, match=r"line 3 is 'NA'; name another column, .* add --missing NA$"):
        from_file(path, ["land"], [n])
    lands = from_file(path, ["land"], [])
    assert lands.answers["land"].to_pylist() == ["NA", "DE", None, "DE"]
    assert notes_of(lands) == [
        "column 'land' has 'NA', counted as a category; if that means no answer, add --missing NA"
    ]
    both = from_file(path, ["land"], [n], Notation(missing=("NA",)))
    assert both.answers.to_pylist()[:3] == [
        {"land": None, "n": 1.0},
        {"land": "DE", "n": None},
        {"land": None, "n": 2.0},
    ]
    assert notes_of(both) == []


def noted(path: Path, *questions: Question) -> list[str]:
    return notes_of(read_answers("usage", questions, path, []))


def test_words_for_no_answer_and_clipped_numbers_are_pointed_out_with_a_task_too(tmp_path: Path) -> None:
    path = tmp_path / "lands.csv"
    path.write_text("land,note,n\n-,n/a,-1\nDE,x,10\nNA,y,9\nDE,z,\n")
    land, n = Histogram("land", ("-", "DE", "NA")), Number("n", 0.0, 9.0, optional=True)
    assert noted(path, land, Text("note"), n) == [
        "column 'land' has '-' and 'NA', counted as a category; if that means no answer, add --missing -,NA",
        "column 'note' has 'n/a', counted as an answer; if that means no answer, add --missing n/a",
        "column 'n': 2 of 3 numbers are outside of 0 to 9, and are clipped to that range",
    ]
    region = Grouped("n", (land,), n, optional=True)
    assert len(noted(path, region)) == 2


def test_categories_that_differ_in_case_alone_are_pointed_out(tmp_path: Path) -> None:
    path = tmp_path / "active.csv"
    path.write_text("active\nTRUE\nfalse\nTrue\n")
    assert notes_of(from_file(path, ["active"], [])) == [
        "column 'active' has 'TRUE' and 'True', which are different categories; if they are one, write them alike"
    ]


@pytest.mark.parametrize(
    ("text", "column", "says"),
    [
        ("web,12.50\nweb,3\napp,4\n", "web", "'web' is a column's name and no answer"),
        ("web,12.50\nmail,3\napp,4\n", "12.50", "'12.50' is a column's name and no answer"),
        ("kind,2020\nmail,3\napp,4\n", "2020", ""),
        ("kind,n\nmail,3\napp,4\n", "kind", ""),
    ],
)
def test_a_file_without_a_header_is_pointed_out(text: str, column: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text(text)
    assert [says in note for note in notes_of(from_file(path, [column], []))] == [True] * bool(says)


def test_a_task_s_columns_are_read_in_the_stated_notation(tmp_path: Path) -> None:
    path = tmp_path / "lands.csv"
    path.write_text("land;n\nDE;1.234,5\nNA;?\nFR;2\n")
    questions = [Histogram("land", ("DE", "FR"), optional=True), Number("n", 0.0, 9.0, optional=True)]
    with pytest.raises(HubbubError, match=r"is 'NA': .*; or, if it means no answer, add --missing NA$"):
        read_answers("usage", questions, path, [])
    found = read_answers("usage", questions, path, [], Notation(",", ".", ("NA", "?")))
    assert found.answers["n"].to_pylist() == [1234.5, None, 2.0]
    assert found.answers["land"].to_pylist() == ["DE", None, "FR"]


def test_first_rows_are_taken_and_no_more_than_there_are(table: Path) -> None:
    dataset = from_file(table, ["city"], [])
    assert [row["city"] for row in first_rows(dataset, 2).rows()] == ["A", "B"]
    assert first_rows(dataset, None) is dataset
    with pytest.raises(UsageError, match="the data has 4"):
        first_rows(dataset, 5)


def test_flights_are_all_of_2013() -> None:
    dataset = flights()
    assert dataset.devices == 336_776
    carrier, delay = (truth_of(dataset, question) for question in dataset.questions)
    assert (len([row for row in carrier if row[0] == "count"]), carrier["count", "UA"]) == (16, 58_665)
    assert dataset.devices - delay["answered", None] == 8_255


REGION = Histogram("region", ("north", "south"))


def test_an_answer_of_several_parts_is_read_from_a_column_each(tmp_path: Path) -> None:
    path = tmp_path / "usage.csv"
    path.write_text("area,minutes\nnorth,1.5\nsouth,\nnorth,7\n")
    silent = Grouped("session", (REGION,), Number("session", 0.0, 9.0, optional=True))
    dataset = read_answers("usage", [silent], path, ["region=area", "session=minutes"])
    assert [row["session"] for row in dataset.rows()] == [
        {"region": "north", "session": 1.5},
        {"region": "south", "session": None},
        {"region": "north", "session": 7.0},
    ]
    needed = Grouped("session", (REGION,), Number("session", 0.0, 9.0))
    with pytest.raises(HubbubError, match=r"column 'area' or 'minutes' of .* has 1 row without an answer"):
        read_answers("usage", [needed], path, ["region=area", "session=minutes"])
    missing = Grouped("session", (REGION,), Number("session", 0.0, 9.0), optional=True)
    rows = read_answers("usage", [missing], path, ["region=area", "session=minutes"]).rows()
    assert [row["session"] is None for row in rows] == [False, True, False]


def test_a_name_in_several_questions_is_one_column(tmp_path: Path) -> None:
    path = tmp_path / "usage.csv"
    path.write_text("area,n\nnorth,1\nsouth,2\n")
    questions = [REGION, Grouped("n", (REGION,), Number("n", 0.0, 9.0))]
    dataset = read_answers("usage", questions, path, ["region=area"])
    assert list(dataset.rows())[1] == {"region": "south", "n": {"region": "south", "n": 2.0}}


def test_an_attribute_s_value_that_is_not_known_is_named_with_its_row(tmp_path: Path) -> None:
    path = tmp_path / "usage.csv"
    path.write_text("region,n\nnorth,1\nwest,2\n")
    with pytest.raises(HubbubError, match=r"line 3 of .*, column 'region', is 'west'"):
        read_answers("usage", [Grouped("n", (REGION,), Number("n", 0.0, 9.0))], path, [])


def test_an_option_that_is_advised_can_be_pasted_into_a_shell(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("a\nx\ny\n")
    with pytest.raises(HubbubError, match=r"name the query's column with --column 'how I go'=COLUMN$"):
        read_answers("name", [Histogram("how I go", ("x", "y"))], path, ())
