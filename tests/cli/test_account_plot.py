"""`hubbub account plot`: files that can be opened, points that can be read, errors that say what to do."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from PIL import Image

from support.cli import hubbub

KRR = ("--mechanism", "krr", "--categories", "16", "--local-epsilon", "4", "--delta", "1e-6")
OVER = ("--over", "reports", "--from", "1e3", "--to", "1e5", "--points", "3")


def test_help_has_an_example() -> None:
    ran = hubbub("account", "plot", "--help")
    assert ran.status == 0
    assert "Example:\n    hubbub account plot --mechanism krr" in ran.out


def test_an_svg_and_its_points_in_one_run(tmp_path: Path) -> None:
    out = tmp_path / "bounds.svg"
    ran = hubbub("account", "plot", *KRR, *OVER, "--out", out, "--json")
    assert ran.status == 0
    (panel,) = ran.json["panels"]
    best = next(series for series in panel["series"] if series["label"].startswith("best"))
    asked = hubbub("account", "epsilon", *KRR, "--reports", "10000", "--json").json
    assert best["points"][1] == [10000.0, asked["epsilon_upper"]]
    assert panel["x"]["scale"] == "log"
    words = {
        "".join(each.itertext()).strip() for each in ElementTree.parse(out).iter("{http://www.w3.org/2000/svg}text")
    }
    assert {series["label"] for series in panel["series"]} <= words
    assert "central ε (nats)" in words


# tests/unit/cli/test_plots.py draws a PNG and every curve.
@pytest.mark.exhaustive
def test_a_png_by_its_ending_and_a_line_for_each_curve(tmp_path: Path) -> None:
    out = tmp_path / "bounds.png"
    ran = hubbub("account", "plot", *KRR, *OVER, "--bound", "best", "--bound", "clones", "--out", out)
    assert ran.status == 0
    assert ran.out.splitlines() == ["best: 3 of 3 points", "clones: 3 of 3 points", f"wrote {out}"]
    with Image.open(out) as image:
        image.load()
        assert image.format == "PNG"


def test_without_a_terminal_there_is_no_progress() -> None:
    ran = hubbub("account", "plot", *KRR, *OVER, "--bound", "local", "--json")
    assert ran.json["panels"][0]["series"][0]["points"] == [[1000.0, 4.0], [10000.0, 4.0], [100000.0, 4.0]]
    assert ran.err == ""


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        ((*KRR, *OVER, "--out", "a.pdf"), 2, ".svg or .png"),
        ((*KRR, *OVER, "--out", "missing/a.svg"), 2, "no folder"),
        ((*KRR, *OVER), 2, "--out"),
        ((*KRR, "--over", "reports", "--from", "9", "--to", "3", "--json"), 2, "empty"),
        ((*KRR, "--over", "reports", "--from", "9", "--json"), 2, "--to"),
        ((*KRR, "--over", "reports", "--from", "nan", "--to", "9", "--json"), 2, "--from is nan"),
        ((*KRR, "--over", "nothing", "--from", "9", "--to", "10", "--json"), 2, "--over"),
        ((*KRR, *OVER, "--bound", "nothing", "--json"), 2, "blanket"),
        ((*KRR, *OVER, "--bound", "2rr", "--json"), 1, "no bound applies anywhere in this range. 2rr:"),
        (("--mechanism", "krr", *OVER, "--delta", "1e-6", "--local-epsilon", "1", "--json"), 2, "--categories"),
    ],
)
def test_bad_use_says_what_is_wrong(words: tuple[str, ...], status: int, says: str, tmp_path: Path) -> None:
    ran = hubbub("account", "plot", *words, folder=tmp_path)
    assert ran.status == status
    assert says in ran.err
    assert "Traceback" not in ran.err
    assert list(tmp_path.iterdir()) == []
