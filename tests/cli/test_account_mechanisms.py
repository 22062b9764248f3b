"""`hubbub account` for RAPPOR, Laplace and Gaussian noise, and for Poisson sampling."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.cli import hubbub, hubbub_here
from support.messages import AN_ATTACK

RAPPOR = ("--mechanism", "rappor", "--categories", "8", "--reports", "2000")
BITS = ("--truthful", "0.5", "--other", "1/10")


def test_rappor_is_described_by_its_bits_or_by_its_local_epsilon() -> None:
    by_bits = hubbub("account", "epsilon", *RAPPOR, *BITS, "--delta", "1e-6", "--json").json
    assert by_bits["epsilon_local"] == pytest.approx(2.1972245773362196)
    assert 0 < by_bits["epsilon_lower"] <= by_bits["epsilon_upper"] < 0.3
    assert by_bits["bound"] == "whole-law"
    words = ("--local-epsilon", str(by_bits["epsilon_local"]), "--truthful", "1/2")
    by_local = hubbub("account", "epsilon", *RAPPOR, *words, "--delta", "1e-6", "--json").json
    assert by_local["epsilon_upper"] == pytest.approx(by_bits["epsilon_upper"], rel=1e-5)


HASHED = ("--mechanism", "hashed", "--cells", "64", "--local-epsilon", "4", "--reports", "2000")
SAME_KRR = ("--mechanism", "krr", "--categories", "64", "--local-epsilon", "4", "--reports", "2000")


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("command", "asked"),
    [
        ("epsilon", ("--delta", "1e-6")),
        ("epsilon", ("--delta", "1e-6", "--rounds", "2")),
        ("epsilon", ("--delta", "1e-6", "--noise", "geometric:0.6065:27")),
        ("delta", ("--epsilon", "1")),
        ("rdp", ("--order", "2")),
    ],
)
def test_hashed_answers_have_the_bounds_of_krr_over_the_cells(command: str, asked: tuple[str, ...]) -> None:
    found, same = (hubbub_here("account", command, *words, *asked, "--json").json for words in (HASHED, SAME_KRR))
    upper = next(name for name in found if name.endswith("_upper"))
    # Proven of hashed answers (accounting-hashed.md): their upper end is that of kRR at the same n.
    assert found[upper] == same[upper] > 0
    assert found["epsilon_local"] == same["epsilon_local"]


def test_hashed_answers_are_described_by_gamma_or_in_a_row_of_a_file(tmp_path: Path) -> None:
    words = ("--mechanism", "hashed", "--cells", "64", "--gamma", "1/4", "--reports", "2000", "--rounds", "3")
    asked = hubbub_here("account", "epsilon", *words, "--delta", "1e-6", "--json").json
    path = tmp_path / "rounds.json"
    row = {"mechanism": "hashed", "cells": 64, "rows": 16, "gamma": "1/4", "reports": 2000, "rounds": 3}
    path.write_text(json.dumps([row]))
    composed = hubbub_here("account", "compose", str(path), "--delta", "1e-6", "--json").json
    assert composed["epsilon_upper"] == asked["epsilon_upper"]
    found = hubbub_here("account", "bounds", *words[:-2], "--delta", "1e-6", "--json").json
    assert [each["bound"] for each in found["bounds"] if each["chosen"]] == ["blanket"]


def test_hashed_answers_are_drawn_over_their_cells() -> None:
    words = ("--mechanism", "hashed", "--local-epsilon", "4", "--reports", "2000", "--delta", "1e-6")
    over = ("--over", "cells", "--from", "4", "--to", "400", "--points", "3", "--bound", "best")
    (series,) = hubbub_here("account", "plot", *words, *over, "--json").json["panels"][0]["series"]
    cells, epsilons = zip(*series["points"], strict=True)
    assert cells == (4, 40, 400)
    assert sorted(epsilons, reverse=True) == list(epsilons)


def test_gaussian_noise_has_no_local_epsilon_in_a_document_that_is_json() -> None:
    ran = hubbub(
        "account", "delta", "--mechanism", "gaussian", "--sigma", "3", "--reports", "300", "--epsilon", "0.1", "--json"
    )
    assert ran.json["epsilon_local"] is None
    assert 0 < ran.json["delta_lower"] <= ran.json["delta_upper"] < 1
    assert "Infinity" not in json.dumps(ran.json)


def test_one_laplace_report_is_answered() -> None:
    ran = hubbub(
        "account", "delta", "--mechanism", "laplace", "--local-epsilon", "1", "--reports", "1", "--epsilon", "0.5"
    )
    assert ran.status == 0
    assert "delta_upper" in ran.out


def test_poisson_sampling_helps_and_composes(tmp_path: Path) -> None:
    row: dict[str, Any] = {"mechanism": "krr", "categories": 4, "local_epsilon": 1, "reports": 300, "rounds": 2}
    found = []
    for sampled in ({}, {"sampling_rate": 0.25}, {"sampling_rate": "1/4"}):
        path = tmp_path / "rounds.json"
        path.write_text(json.dumps([{**row, **sampled}]))
        found.append(hubbub("account", "compose", str(path), "--delta", "1e-6", "--json").json["epsilon_upper"])
    assert found[1] == found[2] < found[0]
    words = ("--mechanism", "krr", "--categories", "4", "--local-epsilon", "1", "--reports", "300", "--rounds", "2")
    asked = hubbub("account", "epsilon", *words, "--sampling-rate", "0.25", "--delta", "1e-6", "--json").json
    assert asked["epsilon_upper"] == found[1]


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--mechanism", "laplace", "--sigma", "1"), "laplace takes --local-epsilon, not --sigma"),
        (
            (
                "--mechanism",
                "laplace",
            ),
            "laplace needs --local-epsilon",
        ),
        (
            (
                "--mechanism",
                "gaussian",
            ),
            "gaussian needs --sigma",
        ),
        (("--mechanism", "gaussian", "--sigma", "0"), "sigma is 0"),
        (("--mechanism", "rappor", "--truthful", "0.5", "--other", "0.1"), "rappor needs --categories"),
        (("--mechanism", "rappor", "--categories", "4", "--truthful", "0.5"), "rappor takes --truthful and --other"),
        (("--mechanism", "rappor", "--categories", "4", "--truthful", "x", "--other", "1/3"), "--truthful is 'x'"),
        (
            ("--mechanism", "rappor", "--categories", "4", "--truthful", "1/4", "--other", "1/2"),
            "give at most truthful",
        ),
        (("--mechanism", "krr", "--categories", "4", "--local-epsilon", "1", "--other", "1/2"), "krr takes no --other"),
        (("--mechanism", "krr", "--local-epsilon", "1"), "krr needs --categories\n"),
        (("--mechanism", "hashed", "--local-epsilon", "1"), "hashed needs --cells"),
        (("--mechanism", "hashed", "--cells", "2", "--local-epsilon", "1"), "cells is 2; give a whole number of at"),
        (("--mechanism", "hashed", "--cells", "4"), "give exactly one of --local-epsilon and --gamma"),
        (("--mechanism", "hashed", "--categories", "4", "--local-epsilon", "1"), "not --categories"),
        (("--mechanism", "krr", "--categories", "4", "--cells", "4", "--local-epsilon", "1"), "krr takes no --cells"),
        (("--mechanism", "gaussian", "--sigma", "1", "--rounds", "2"), "ask for one round"),
        (("--mechanism", "laplace", "--local-epsilon", "1", "--sampling-rate", "0.1"), "subsampling is proven for kRR"),
        (
            ("--mechanism", "krr", "--categories", "4", "--local-epsilon", "1", "--sampling-rate", "2"),
            "sampling_rate is 2; give a fraction from 2**-80",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(words: tuple[str, ...], says: str) -> None:
    ran = hubbub("account", "epsilon", *words, "--reports", "100", "--delta", "1e-6")
    assert ran.status in (1, 2)
    assert says in ran.err
    assert "Traceback" not in ran.err


def test_gaussian_noise_has_bounds_and_a_divergence_for_one_round() -> None:
    noise = ("--mechanism", "gaussian", "--sigma", "2", "--reports", "100")
    rdp = hubbub("account", "rdp", *noise, "--order", "3", "--json").json
    # λ/(2σ²) of one report alone, and of the sum of all 100.
    assert rdp["rdp_upper"] == pytest.approx(3 / 8)
    assert rdp["rdp_lower"] == pytest.approx(3 / 800)
    assert rdp["epsilon_local"] is None
    assert rdp["bound"] == "local"
    assert "one report alone: this bound is the same" in hubbub("account", "rdp", *noise, "--order", "3").out
    found = hubbub("account", "bounds", *noise, "--delta", "1e-6", "--order", "3", "--json").json
    applying = {each["bound"]: each for each in found["bounds"] if each["applies"]}
    assert list(applying) == ["blanket", "ends-lower"]
    assert applying["blanket"]["chosen"]
    assert applying["ends-lower"]["epsilon_lower"] < applying["blanket"]["epsilon_upper"]
    assert (applying["blanket"]["rdp_upper"], found["epsilon_local"]) == (pytest.approx(3 / 8), None)
    for more in (("--rounds", "2"), ("--sampling-rate", "0.1")):
        ran = hubbub("account", "bounds", *noise, "--delta", "1e-6", *more)
        assert ran.status in (1, 2)
        assert "gaussian" in ran.err.lower()


def test_a_null_says_to_people_what_there_is_none_of() -> None:
    sized = ("--epsilon", "1", "--delta", "1e-6", "--reports", "100000")
    told = hubbub("account", "calibrate", "--query", "histogram", "--categories", "5", *sized).out
    assert "none: a histogram has categories" in told
    assert "unknown" not in told
    noise = hubbub(
        "account", "epsilon", "--mechanism", "gaussian", "--sigma", "3", "--reports", "300", "--delta", "1e-6"
    )
    assert "none: this noise alone has no local epsilon" in noise.out


def test_an_attack_is_refused_as_an_upper_bound() -> None:
    crowd = ("--mechanism", "krr", "--categories", "4", "--local-epsilon", "1", "--reports", "100", "--delta", "1e-6")
    ran = hubbub("account", "epsilon", *crowd, "--bound", "krr-lower", "--json")
    assert ran.status == 2
    assert AN_ATTACK in ran.json["error"]


def test_messages_show_no_python() -> None:
    ran = hubbub("account", "epsilon", *RAPPOR, *BITS, "--delta", "1e-6", "--bound", "2rr", "--json")
    assert ran.status == 1
    assert "Fraction(" not in ran.json["error"]
    assert "RAPPOR with" in ran.json["error"]


def test_bounds_of_rappor_choose_the_whole_law() -> None:
    ran = hubbub("account", "bounds", *RAPPOR, *BITS, "--delta", "1e-6", "--json")
    chosen = [each["bound"] for each in ran.json["bounds"] if each["chosen"]]
    assert chosen == ["whole-law"]
