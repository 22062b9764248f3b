"""A citation names the task, its owner, rounds, days and certificate; TeX prints its characters as they are."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from hubbub.pages.report.citation import Citation

GIVEN = Citation(
    task="commute_1",
    task_id="ab" * 32,
    rounds="rounds 0 to 3",
    begins=datetime(2026, 1, 1, tzinfo=UTC),
    ends=datetime(2026, 1, 5, tzinfo=UTC),
    owner="R&D_team {50 %} \\x",
    published="https://example.org/~team",
    digest="cd" * 32,
)


def test_the_sentence_has_everything() -> None:
    assert GIVEN.sentence == (
        "R&D_team {50 %} \\x (2026). commute_1: rounds 0 to 3, estimates under differential privacy, 2026-01-01 to "
        f"2026-01-05. Published at https://example.org/~team. Task {'ab' * 32}, certificate SHA-256 {'cd' * 32}."
    )


def test_what_the_task_does_not_state_is_said_or_left_out() -> None:
    bare = replace(GIVEN, owner=None, published=None, ends=GIVEN.begins)
    assert bare.sentence.startswith("Owner not stated (2026).")
    assert "privacy, 2026-01-01. Task" in bare.sentence
    assert "howpublished" not in bare.bibtex


def test_bibtex_escapes_what_tex_would_run() -> None:
    assert GIVEN.bibtex == (
        "@misc{commute-1-abababab-rounds-0-to-3,\n"
        "  title = {{commute\\_1: rounds 0 to 3, estimates under differential privacy}},\n"
        "  author = {{R\\&D\\_team \\textbraceleft{}50 \\%\\textbraceright{} \\textbackslash{}x}},\n"
        "  year = {2026},\n"
        "  date = {2026-01-05},\n"
        "  howpublished = {https://example.org/\\textasciitilde{}team},\n"
        f"  note = {{Task {'ab' * 32}, certificate SHA-256 {'cd' * 32}}},\n"
        "}"
    )


def test_a_name_cannot_end_its_member_of_bibtex() -> None:
    # BibTeX counts every brace, also behind a backslash.
    evil = replace(GIVEN, owner="x}}, note = {forged}, z = {{", published="}\n}@misc{a")
    depth, least = 0, 1
    inside = evil.bibtex.removeprefix("@misc{").removesuffix("}")
    for each in inside:
        depth += (each == "{") - (each == "}")
        least = min(least, depth)
    assert (depth, least) == (0, 0)
    assert evil.bibtex.count("\n  note = ") == 1
    for line in inside.split(",\n")[1:-1]:
        assert line.count("{") == line.count("}")
