"""A draft is read as written, or refused with the line, the value, the limit and what to do."""

import re
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.protos.errors import TaskError
from hubbub.protos.task.admission import ENROLLED, OPEN, AdmissionPolicy, Mode
from hubbub.protos.task.draft import MAXIMUM_QUERIES, read_draft
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.task import Draft, Privacy
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.questions.number import Number

GOOD = """\
# What is asked.
[task]
name = "flights"
start = 2026-01-01T00:00:00Z
length = "1d"
grace = "10m"
rounds = 30
minimum_reports = 18000
close = "operator"

[privacy]
epsilon = 1
delta = 1e-6
epsilon_local = 8
honest_share = 0.9

[[query]]
name = "carrier"
kind = "histogram"
categories = ["9E", "AA", "B6"]

[[query]]
name = "departure_delay"
kind = "sum"
lower = -30
upper = 180
unit = "minutes"
optional = true
weight = 2
"""


def edited(*changes: tuple[str, str]) -> str:
    text = GOOD
    for old, new in changes:
        assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in the sample"
        text = text.replace(old, new)
    return text


def refusal(text: str) -> str:
    with pytest.raises(TaskError) as caught:
        read_draft(text)
    return str(caught.value)


def test_draft_is_read_as_written() -> None:
    assert read_draft(GOOD) == Draft(
        name="flights",
        schedule=Schedule(1_767_225_600, 86_400, 600, 30, "operator"),
        minimum_reports=18_000,
        privacy=Privacy(1.0, 1e-6, 8.0, 0.9),
        questions=(
            Histogram("carrier", ("9E", "AA", "B6")),
            Number("departure_delay", -30.0, 180.0, "minutes", optional=True, weight=2.0),
        ),
    )


def test_defaults_are_those_that_are_documented() -> None:
    removed = [('close = "operator"\n', ""), ("rounds = 30\n", ""), ("epsilon_local = 8\n", "")]
    draft = read_draft(edited(*removed, ("honest_share = 0.9\n", ""), ("weight = 2\n", ""), ("optional = true\n", "")))
    assert (draft.schedule.close, draft.schedule.rounds) == ("schedule", 1)
    assert (draft.privacy.epsilon_local, draft.privacy.honest_share) == (8.0, 1.0)
    assert (draft.privacy.epsilon_total, draft.privacy.dummies) == (None, 0)
    assert [(question.weight, question.optional) for question in draft.questions] == [(1.0, False)] * 2


def test_budget_and_dummies_are_read_as_written() -> None:
    privacy = read_draft(edited(("honest_share = 0.9", "epsilon_total = 3\ndummies = 500"))).privacy
    assert (repr(privacy.epsilon_total), repr(privacy.dummies)) == ("3.0", "500")


@pytest.mark.parametrize(("minimum", "delta"), [("10", "1e-2"), ("1000", "1e-4"), ("3", "0.03"), ("18000", "5.5e-6")])
def test_a_delta_of_a_tenth_of_a_person_needs_no_words(minimum: str, delta: str) -> None:
    """The limit is exact in decimals: 0.1 / 1000 is 1e-4, whatever floats make of it."""
    assert read_draft(edited(("18000", minimum), ("1e-6", delta))).privacy.large_delta is None


def test_words_allow_a_large_delta() -> None:
    privacy = read_draft(edited(("1e-6", '0.5\nlarge_delta = "a test – on nobody"'))).privacy
    assert (privacy.delta, privacy.large_delta) == (0.5, "a test – on nobody")


def test_a_round_has_a_most_that_is_written_or_usual() -> None:
    assert read_draft(edited(("rounds = 30", "maximum_reports = 18000"))).most_reports == 18_000
    assert (read_draft(GOOD).maximum_reports, read_draft(GOOD).most_reports) == (None, 1_000_000)
    assert read_draft(edited(("18000", "200_000"), ("1e-6", "1e-7"))).most_reports == 2_000_000
    assert read_draft(edited(("18000", "900_000_000_000"), ("1e-6", "1e-14"))).most_reports == 10**12


@pytest.mark.parametrize(
    ("written", "seconds"),
    [('"90s"', 90), ('"10m"', 600), ('"24h"', 86_400), ('"7d"', 604_800), ('"2w"', 1_209_600), ("45", 45)],
)
def test_durations_are_seconds_or_a_number_with_a_unit(written: str, seconds: int) -> None:
    assert read_draft(edited(('"1d"', written))).schedule.length == seconds


@pytest.mark.parametrize(
    ("written", "start"),
    [
        ("2026-01-01T02:00:00+02:00", 1_767_225_600),
        ("2025-12-31T19:00:00-05:00", 1_767_225_600),
        ("1970-01-01T00:00:00Z", 0),
    ],
)
def test_start_is_the_same_moment_in_every_zone(written: str, start: int) -> None:
    assert read_draft(edited(("2026-01-01T00:00:00Z", written))).schedule.start == start


def test_negative_zero_is_zero() -> None:
    low, high = (read_draft(edited(("lower = -30", f"lower = {zero}"))).questions[1] for zero in ("-0.0", "0"))
    assert repr(low) == repr(high)


NAME = "use a letter, then up to 62 letters, digits, - or _"
COUNT = "it must be a whole number from 2 to 1000000000000"
LOCAL = "must be above 0 and at most 100; 8 is usual"
WRONG = [
    # (old, new, line, what the message must say)
    ('name = "flights"', 'name = "fl ights"', 3, f"task.name is 'fl ights'; {NAME}"),
    ('name = "flights"', 'name = ""', 3, f"task.name is ''; {NAME}"),
    ('name = "flights"', 'name = "9lives"', 3, NAME),
    ('name = "flights"', 'name = "../etc"', 3, NAME),
    ('name = "flights"', f'name = "{"a" * 64}"', 3, NAME),
    ('name = "flights"', "name = 5", 3, f"task.name is 5; {NAME}"),
    ('name = "flights"', "name = true", 3, NAME),
    ('name = "flights"\n', "", 2, "task.name is missing; add it"),
    ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00", 4, "write a time with its zone, such as 2026-01-01T00:00:00Z"),
    ("2026-01-01T00:00:00Z", "2026-01-01", 4, "task.start is 2026-01-01; write a time with its zone"),
    ("2026-01-01T00:00:00Z", '"2026-01-01T00:00:00Z"', 4, "write a time with its zone"),
    ("2026-01-01T00:00:00Z", "1767225600", 4, "task.start is 1767225600; write a time with its zone"),
    ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00.5Z", 4, "rounds start at whole seconds"),
    ("2026-01-01T00:00:00Z", "1969-12-31T23:59:59Z", 4, "before 1970 or after the year 9999; choose another"),
    ("2026-01-01T00:00:00Z", "0001-01-01T00:00:00+23:59", 4, "before 1970"),
    ("2026-01-01T00:00:00Z", "9999-12-31T23:59:59Z", 4, "after the year 9999"),
    ("2026-01-01T00:00:00Z", "9999-12-31T23:59:59-23:59", 4, "after the year 9999"),
    ('"1d"', '"1 day"', 5, "task.length is '1 day'; give seconds, or a text such as '90s', '10m', '24h' or '7d'"),
    ('"1d"', '"-1d"', 5, "give seconds, or a text"),
    ('"1d"', '"1.5h"', 5, "give seconds, or a text"),
    ('"1d"', '"٣d"', 5, "give seconds, or a text"),
    ('"1d"', "1.5", 5, "task.length is 1.5; give seconds"),
    ('"1d"', "true", 5, "task.length is True; give seconds"),
    ('"1d"', "0", 5, "task.length is 0; it must be a whole number from 1 to 315360000"),
    ('"1d"', '"0s"', 5, "a whole number from 1 to"),
    ('"1d"', '"999999999w"', 5, "a whole number from 1 to"),
    ('"1d"', "0x" + "f" * 5000, 5, "a number too long to show; it must be a whole number from 1 to"),
    ('"10m"', "-1", 6, "task.grace is -1; it must be a whole number from 0 to 31536000"),
    ('"10m"', '"53w"', 6, "a whole number from 0 to 31536000"),
    ("rounds = 30", "rounds = 0", 7, "task.rounds is 0; it must be a whole number from 1 to 1000000"),
    ("rounds = 30", "rounds = 30.5", 7, "task.rounds is 30.5; it must be a whole number"),
    ("rounds = 30", "rounds = true", 7, "task.rounds is True; it must be a whole number"),
    ("rounds = 30", "rounds = 1000001", 7, "from 1 to 1000000"),
    ("18000", "1", 8, f"task.minimum_reports is 1; {COUNT}"),
    ("18000", "0", 8, COUNT),
    ("18000", "-5", 8, COUNT),
    ("18000", "1_000_000_000_001", 8, COUNT),
    ("18000", "2.5", 8, COUNT),
    ("18000", '"many"', 8, COUNT),
    ("minimum_reports = 18000\n", "", 2, "task.minimum_reports is missing; add it"),
    ('"operator"', '"never"', 9, "task.close is 'never'; it must be 'schedule' or 'operator'"),
    ('"operator"', "true", 9, "task.close is True; it must be 'schedule' or 'operator'"),
    ('"operator"', '["operator"]', 9, "it must be 'schedule' or 'operator'"),
    (
        "close =",
        "closes =",
        9,
        "closes is not a key hubbub knows; did you mean close? it knows close, grace",
    ),
    ("epsilon = 1", "epsilon = 0", 12, "privacy.epsilon is 0.0; it must be above 0 and at most 100"),
    ("epsilon = 1", "epsilon = -1", 12, "must be above 0"),
    ("epsilon = 1", "epsilon = 101", 12, "at most 100"),
    ("epsilon = 1", "epsilon = nan", 12, "privacy.epsilon is nan; it must be above 0"),
    ("epsilon = 1", "epsilon = inf", 12, "at most 100"),
    ("epsilon = 1", "epsilon = true", 12, "privacy.epsilon is True; it must be a number"),
    ("epsilon = 1", 'epsilon = "1"', 12, "privacy.epsilon is '1'; it must be a number"),
    ("epsilon = 1", "epsilon = 1" + "0" * 400, 12, "too large a number; it must be finite"),
    ("epsilon = 1", "epsilon = 0x" + "f" * 5000, 12, "too large a number; it must be finite"),
    ("epsilon = 1\n", "", 11, "privacy.epsilon is missing; add it"),
    ("1e-6", "1", 13, "privacy.delta is 1.0; it must be at least 1e-15 and below 1; 1e-6 is usual"),
    ("1e-6", "1.5", 13, "below 1"),
    ("1e-6", "0", 13, "at least 1e-15"),
    ("1e-6", "-1e-6", 13, "at least 1e-15"),
    ("1e-6", "nan", 13, "at least 1e-15"),
    ("1e-6", "0.9", 13, "privacy.delta is 0.9, but at most 5.55556e-06 for minimum_reports = 18000"),
    ("1e-6", "5.6e-6", 13, 'or give the reason for more in words: large_delta = "…"'),
    ("honest_share = 0.9", "large_delta = 0.5", 15, "privacy.large_delta is 0.5; give the reason in at most 300"),
    ("honest_share = 0.9", 'large_delta = ""', 15, "privacy.large_delta is ''; give the reason in at most 300"),
    (
        "rounds = 30",
        "maximum_reports = 17999",
        7,
        "maximum_reports is 17999; it must be a whole number from 18000",
    ),
    ("rounds = 30", "maximum_reports = true", 7, "task.maximum_reports is True; it must be a whole number"),
    ("epsilon_local = 8", "epsilon_local = 101", 14, f"privacy.epsilon_local is 101.0; it {LOCAL}"),
    ("epsilon_local = 8", "epsilon_local = 0", 14, LOCAL),
    ("honest_share = 0.9", "honest_share = 0", 15, "privacy.honest_share is 0.0; it must be above 0 and at most 1"),
    ("honest_share = 0.9", "honest_share = 1.01", 15, "at most 1"),
    (
        "honest_share = 0.9",
        "honesty = 0.9",
        15,
        "honesty is not a key hubbub knows; did you mean honest_share? it",
    ),
    ("honest_share = 0.9", "epsilon_total = 0", 15, "privacy.epsilon_total is 0.0; it must be above 0 and at most 1e6"),
    ("honest_share = 0.9", "epsilon_total = -3", 15, "leave it out for no cap"),
    ("honest_share = 0.9", "epsilon_total = 1e7", 15, "at most 1e6"),
    ("honest_share = 0.9", "epsilon_total = inf", 15, "at most 1e6"),
    ("honest_share = 0.9", "epsilon_total = nan", 15, "must be above 0"),
    ("honest_share = 0.9", "epsilon_total = true", 15, "privacy.epsilon_total is True; it must be a number"),
    ("honest_share = 0.9", 'epsilon_total = "none"', 15, "privacy.epsilon_total is 'none'; it must be a number"),
    ("honest_share = 0.9", "dummies = -1", 15, "privacy.dummies is -1; it must be a whole number from 0 to 1000000"),
    ("honest_share = 0.9", "dummies = 10000001", 15, "a whole number from 0 to 10000000"),
    ("honest_share = 0.9", "dummies = 10.5", 15, "privacy.dummies is 10.5; it must be a whole number"),
    ("honest_share = 0.9", "dummies = true", 15, "privacy.dummies is True; it must be a whole number"),
    ('"histogram"', '"median"', 19, "query[0].kind is 'median'; it must be 'histogram' or 'sum'"),
    ('"histogram"', "1", 19, "query[0].kind is 1; it must be 'histogram' or 'sum'"),
    ('kind = "histogram"\n', "", 17, "query[0].kind is None; it must be 'histogram' or 'sum'"),
    ("weight = 2", 'randomizer = "rappor"', 29, "query[1].randomizer is 'rappor'; it must be 'krr' or 'unary'"),
    ("weight = 2", "randomizer = 1", 29, "query[1].randomizer is 1; it must be 'krr' or 'unary'"),
    ("weight = 2", "randomizer = []", 29, "query[1].randomizer is []; it must be 'krr' or 'unary'"),
    ('["9E", "AA", "B6"]', "[]", 20, "query[0].categories has 0 names; give from 2 to 999999 of them"),
    ('["9E", "AA", "B6"]', '["9E"]', 20, "query[0].categories has 1 names; give from 2 to 999999"),
    ('["9E", "AA", "B6"]', '["9E", "AA", "9E"]', 20, "query[0].categories has '9E' twice; remove one"),
    ('["9E", "AA", "B6"]', '["9E", ""]', 20, "has ''; each name must be a text of 1 to 200 printable characters"),
    ('["9E", "AA", "B6"]', f'["9E", "{"x" * 201}"]', 20, "a text of 1 to 200 printable characters"),
    ('["9E", "AA", "B6"]', '["9E", "A\\nA"]', 20, "printable characters"),
    ('["9E", "AA", "B6"]', '["9E", "A\\u202eA"]', 20, "printable characters"),
    ('["9E", "AA", "B6"]', '["9E", 5]', 20, "has 5; each name must be a text"),
    ('["9E", "AA", "B6"]', '["9E", ["AA"]]', 20, "each name must be a text"),
    ('["9E", "AA", "B6"]', '"9E"', 20, "query[0].categories is '9E'; it must be a list of names"),
    ('["9E", "AA", "B6"]', "{a = 1}", 20, "it must be a list of names"),
    ('categories = ["9E", "AA", "B6"]\n', "", 17, "query[0].categories is missing; add it"),
    (
        'categories = ["9E',
        'unit = "m"\ncategories = ["9E',
        20,
        "query[0].unit belongs in a [[query]] of kind sum or dist",
    ),
    ('"departure_delay"', '"carrier"', 23, "query[1].name is 'carrier' again; give each query its own name"),
    ("lower = -30", "lower = 180", 25, "lower is 180, which is not below upper = 180; swap or widen them"),
    ("lower = -30", "lower = 1e9", 25, "query[1].lower is 1e+09, which is not below upper = 180"),
    ("lower = -30", "lower = -inf", 25, "query[1].lower is -inf; it must be a number from -1e300 to 1e300"),
    ("lower = -30", "lower = nan", 25, "it must be a number from -1e300 to 1e300"),
    ("lower = -30", "lower = false", 25, "query[1].lower is False; it must be a number"),
    ("upper = 180", 'upper = "180"', 26, "query[1].upper is '180'; it must be a number"),
    ("upper = 180", "upper = 1e301", 26, "query[1].upper is 1e+301; it must be a number from -1e300 to 1e300"),
    ("upper = 180\n", "", 22, "query[1].upper is missing; add it"),
    ('"minutes"', "5", 27, "query[1].unit is 5; it must be a short text, such as 'minutes'"),
    ('"minutes"', f'"{"m" * 201}"', 27, "it must be a short text"),
    ('"minutes"', '"m\\u001b[31m"', 27, "it must be a short text"),
    ("optional = true", "optional = 1", 28, "query[1].optional is 1; it must be true or false"),
    ("optional = true", 'optional = "yes"', 28, "it must be true or false"),
    ("weight = 2", "weight = 0", 29, "query[1].weight is 0.0; it must be a number from 1e-6 to 1e6"),
    ("weight = 2", "weight = -1", 29, "a number from 1e-6 to 1e6"),
    ("weight = 2", "weight = nan", 29, "a number from 1e-6 to 1e6"),
    ("weight = 2", "weight = true", 29, "query[1].weight is True; it must be a number"),
    ("weight = 2", "weigth = 2", 29, "query[1].weigth is not a key hubbub knows; did you mean weight? it knows digits"),
    (
        "[privacy]",
        "[privacy_]",
        11,
        "privacy_ is not a key hubbub knows; did you mean privacy? it knows about, admission, log, p",
    ),
    ('close = "op', 'epsilon_total = 6\nclose = "op', 9, "task.epsilon_total belongs in [privacy]; move it there"),
    ('close = "op', 'second_authority = "0"\nclose = "op', 9, "task.second_authority belongs in [admission]; move"),
    ("honest_share = 0.9", "rounds = 2", 15, "privacy.rounds belongs in [task]; move it there"),
    ("honest_share = 0.9", 'name = "a"', 15, "privacy.name belongs in [task] or in a [[query]]; move it there"),
    ("honest_share = 0.9", "weight = 1", 15, "privacy.weight belongs in a [[query]]; move it there"),
    ("weight = 2", "honest_share = 1.0", 29, "query[1].honest_share belongs in [privacy]; move it there"),
    ('categories = ["9E', 'digits = 8\ncategories = ["9E', 20, "query[0].digits belongs in a [[query]] of kind sum; m"),
    ("weight = 2", "changes = 4", 29, "query[1].changes belongs in a [[query]] of kind longitudinal; move it"),
    ("# What is asked.", "epsilon = 2", 1, "epsilon belongs in [privacy]; move it there, or leave it out"),
]


def test_whole_numbers_may_be_written_as_floats_that_are_whole() -> None:
    written = edited(("18000", "1.8e4"), ("rounds = 30", "rounds = 3e1\nmaximum_reports = 2e6"), ('"1d"', "86_400.0"))
    plain = edited(("18000", "18_000"), ("rounds = 30", "rounds = 30\nmaximum_reports = 2_000_000"), ('"1d"', "86_400"))
    assert repr(read_draft(written)) == repr(read_draft(plain))
    changes = '\n[[query]]\nname = "on"\nkind = "longitudinal"\nchanges = '
    assert repr(read_draft(GOOD + changes + "4e0")) == repr(read_draft(GOOD + changes + "4"))
    assert "must be a whole number" in refusal(edited(("18000", "9007199254740993.0")))


@pytest.mark.parametrize(("old", "new", "line", "says"), WRONG, ids=lambda value: f"{value!s:.24}")
def test_wrong_value_is_refused_with_line_value_limit_and_remedy(old: str, new: str, line: int, says: str) -> None:
    message = refusal(edited((old, new)))
    assert says in message
    assert message.startswith(f"line {line}: "), message
    assert len(message) < 400


KEY = "-".join(["0123abcd"] * 8)


@pytest.mark.parametrize(
    ("table", "admission"),
    [
        ("", ENROLLED),
        ('[admission]\nmode = "enrolled"\n', ENROLLED),
        ('[admission]\nmode = "open"\n', OPEN),
        (
            f'[admission]\nmode = "enrolled"\nsecond_authority = "{KEY}"\n',
            AdmissionPolicy(Mode.ENROLLED, bytes.fromhex(KEY.replace("-", ""))),
        ),
        ('[admission]\nmode = "mtls"\n', AdmissionPolicy(Mode.MTLS)),
    ],
    ids=range(5),
)
def test_a_draft_says_who_may_submit_and_enrolls_devices_where_it_does_not(
    table: str, admission: AdmissionPolicy
) -> None:
    assert read_draft(GOOD + table).admission == admission


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ('mode = "known"', "admission.mode is 'known'; it must be 'enrolled' or 'mtls' or 'open'"),
        (f'mode = "mtls"\nsecond_authority = "{KEY}"', "is for enrolled devices, and the mode is 'mtls'"),
        ("mode = 1", "admission.mode is 1; it must be"),
        ("", "admission.mode is missing"),
        ('mode = "open"\nmore = 1', "admission.more is not a key hubbub knows"),
        (f'mode = "open"\nsecond_authority = "{KEY}"', "is for enrolled devices, and the mode is 'open'"),
        ('mode = "enrolled"\nsecond_authority = "0123"', "give the fingerprint of its public key"),
        ('mode = "enrolled"\nsecond_authority = 7', "give the fingerprint of its public key"),
    ],
    ids=range(8),
)
def test_an_admission_that_cannot_be_is_refused_with_what_can(table: str, says: str) -> None:
    assert says in refusal(GOOD + "[admission]\n" + table)


def test_an_open_task_must_say_which_share_it_assumes_to_be_honest() -> None:
    table = '[admission]\nmode = "open"\n'
    without = GOOD.replace("honest_share = 0.9\n", "")
    message = refusal(without + table)
    assert "privacy.honest_share is missing: in an open task nobody checks who submits" in message
    assert message.startswith("line ")
    assert read_draft(without).privacy.honest_share == 1.0
    assert read_draft(without.replace("delta = 1e-6", "delta = 1e-6\nhonest_share = 1") + table).admission == OPEN


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "privacy is missing; add it"),
        ('[task]\nname = "a"\n', "privacy is missing; add it"),
        (GOOD.replace("[[query]]", "[query]", 1).split("[[query]]")[0], "must be one or more tables; begin each with"),
        (GOOD.split("[[query]]")[0], "query is missing; add it"),
        ("query = []\n" + GOOD.split("[[query]]")[0], "must be one or more tables; begin each with [[query]]"),
        ("query = [1, 2]\n" + GOOD.split("[[query]]")[0], "must be one or more tables; begin each with [[query]]"),
        ("task = 5\nprivacy = 6\nquery = 7\n", "task must be a table; begin it with [task]"),
        (GOOD + "[task]\n", "not TOML"),
        (GOOD + "weight = 3\n", "not TOML"),
        (GOOD + "a = \n", "not TOML"),
        (GOOD.replace("2026-01-01T", "2026-02-30T"), "not TOML"),
        (GOOD.replace("18000", "9" * 5000), "not TOML"),
        (GOOD + "a = " + "[" * 100_000, "not TOML"),
        ("\x00", "not TOML"),
        (GOOD.replace('"flights"', "“flights”"), 'correct the file there: TOML has " for a text, not “'),
    ],
    ids=range(15),
)
def test_file_of_another_form_is_refused(text: str, says: str) -> None:
    message = refusal(text)
    assert says in message
    assert len(message) < 400


def test_draft_names_the_randomizer_of_each_query() -> None:
    text = edited(("weight = 2", 'weight = 2\nrandomizer = "unary"'))
    carrier, delay = read_draft(text).questions
    assert (carrier.randomizer, delay.randomizer) == ("krr", "unary")
    assert read_draft(text.replace('"unary"', '"krr"')) == read_draft(GOOD)


def test_too_many_queries_are_refused() -> None:
    head = GOOD.split("[[query]]")[0]
    text = head + "".join(
        f'[[query]]\nname = "q{number}"\nkind = "histogram"\ncategories = ["a", "b"]\n'
        for number in range(MAXIMUM_QUERIES + 1)
    )
    assert f"query occurs 65 times; a task asks 1 to {MAXIMUM_QUERIES} queries" in refusal(text)


def test_optional_histogram_may_have_one_category() -> None:
    text = edited(('["9E", "AA", "B6"]', '["9E"]\noptional = true'))
    assert read_draft(text).questions[0] == Histogram("carrier", ("9E",), optional=True)


@pytest.mark.parametrize(
    "text",
    [
        GOOD.replace("[privacy]", "  [ privacy ]  # what is promised").replace("epsilon = 1\n", "epsilon = 0\n"),
        GOOD.replace("epsilon = 1\n", "'epsilon'=0\n"),
        GOOD.replace("epsilon = 1\n", '"epsilon" = 0 # none\n'),
        GOOD.replace("\n", "\r\n").replace("epsilon = 1\r\n", "epsilon = 0\r\n"),
    ],
    ids=range(4),
)
def test_line_is_found_however_it_is_written(text: str) -> None:
    assert refusal(text).startswith("line 12: privacy.epsilon is 0.0")


def test_line_is_that_of_the_query_that_is_wrong() -> None:
    second = 'name = "other"\nkind = "histogram"\ncategories = ["a", "a"]\n'
    message = refusal(GOOD + "\n[[query]]\n" + second)
    assert message.startswith("line 34: query[2].categories")


VALUES = st.one_of(
    st.integers(-(2**70), 2**70).map(str),
    st.floats().map(lambda value: repr(value).replace("e+", "e")),
    st.booleans().map(lambda value: str(value).lower()),
    st.text(st.characters(categories=["L", "N"]), max_size=6).map(lambda text: f'"{text}"'),
    st.sampled_from(["[]", "{}", "[[]]", '[1, "a"]', "2026-01-01", "12:00:00", "2026-01-01T00:00:00Z", "[{}]"]),
)
LINES = [number for number, line in enumerate(GOOD.splitlines()) if "=" in line]


@given(st.dictionaries(st.sampled_from(LINES), VALUES, min_size=1, max_size=4))
def test_only_task_errors_come_out_whatever_a_value_is(values: dict[int, str]) -> None:
    lines = GOOD.splitlines()
    for number, value in values.items():
        lines[number] = re.sub("=.*", lambda _: f"= {value}", lines[number])  # noqa: B023 - used at once
    _reads_or_refuses("\n".join(lines))


@given(st.text(max_size=80) | st.text(st.sampled_from('[]task.=#"\n{}1eq '), max_size=80))
def test_only_task_errors_come_out_of_any_text(text: str) -> None:
    _reads_or_refuses(text)


def _reads_or_refuses(text: str) -> None:
    with suppress(TaskError):
        read_draft(text)
