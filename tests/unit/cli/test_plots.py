"""Plots hold the accountant's own numbers, show gaps as gaps, and are the same bytes whoever draws them."""

from __future__ import annotations

import io
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import pytest
from PIL import Image

from hubbub.accountant.bounds import epsilon_bracket
from hubbub.accountant.bounds.catalog import CATALOG
from hubbub.accountant.bounds.over_rounds import Composition, composed_epsilon
from hubbub.accountant.composition import compose
from hubbub.accountant.errors import AccountingError, OutsideConditions
from hubbub.accountant.mechanisms import KRR, RAPPOR, Generic, Laplace
from hubbub.accountant.pairs import Part
from hubbub.cli.mechanisms.arguments import Description
from hubbub.cli.plots.draw import DrawingMissing, check_drawable, drawn, marked
from hubbub.cli.plots.plan import (
    Axis,
    CurvePlan,
    Panel,
    PanelPlan,
    Plot,
    PlotPlan,
    Series,
    document,
    evaluate,
    scale_of,
)
from hubbub.cli.plots.sweep import SweepQuestion, names, only_applying, shown_power, sweep
from hubbub.cli.plots.variables import Range, Variable
from hubbub.protos.errors import UsageError

KRR_16 = Description("krr", categories=16, local_epsilon=4.0)
SVG = "{http://www.w3.org/2000/svg}"


def series_of(plan: PlotPlan) -> dict[str, Series]:
    return {each.label: each for each in evaluate(plan).panels[0].series}


def test_points_over_reports_are_the_accountants_own() -> None:
    question = SweepQuestion(KRR_16, delta=1e-6)
    found = series_of(sweep(question, Range(Variable.REPORTS, 1e3, 1e5, 3), ("best", "attack", "clones")))
    mechanism = KRR.from_local_epsilon(16, 4.0)
    for place, reports in enumerate((1000, 10_000, 100_000)):
        bracket = epsilon_bracket(mechanism, reports, 1e-6)
        assert found["best"].y[place] == bracket.epsilon_upper
        assert found["attack"].y[place] == bracket.epsilon_lower
        assert found["clones"].y[place] == CATALOG["clones"].epsilon(mechanism, reports, 1e-6).upper


@pytest.mark.parametrize(
    ("variable", "first", "last", "question", "part", "delta"),
    [
        (
            Variable.LOCAL_EPSILON,
            1,
            3,
            SweepQuestion(Description("generic"), 5000, 1e-6),
            Part(Generic(3.0), 5000),
            1e-6,
        ),
        (Variable.DELTA, 1e-9, 1e-3, SweepQuestion(KRR_16, 5000), Part(KRR.from_local_epsilon(16, 4.0), 5000), 1e-3),
        (
            Variable.CATEGORIES,
            3,
            20,
            SweepQuestion(replace(KRR_16, categories=None), 5000, 1e-6),
            Part(KRR.from_local_epsilon(20, 4.0), 5000),
            1e-6,
        ),
        (
            Variable.ROUNDS,
            1,
            6,
            SweepQuestion(KRR_16, 5000, 1e-6),
            Part(KRR.from_local_epsilon(16, 4.0), 5000, 6),
            1e-6,
        ),
    ],
)
def test_the_last_point_of_every_variable_is_what_composition_says(
    variable: Variable, first: float, last: float, question: SweepQuestion, part: Part, delta: float
) -> None:
    found = series_of(sweep(question, Range(variable, first, last, 2), ("best", "attack")))
    bracket = compose([part], delta) if part.rounds > 1 else epsilon_bracket(part.mechanism, part.reports, delta)
    assert (found["best"].y[-1], found["attack"].y[-1]) == (bracket.epsilon_upper, bracket.epsilon_lower)
    assert found["best"].x == (first, last)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("said", "mechanism"),
    [
        (Description("laplace", local_epsilon=1.0), Laplace(1.0)),
        (Description("rappor", categories=8, local_epsilon=2.0), RAPPOR.from_local_epsilon(8, 2.0)),
    ],
)
def test_every_mechanism_can_be_drawn(said: Description, mechanism: Laplace | RAPPOR) -> None:
    found = series_of(
        sweep(SweepQuestion(said, delta=1e-6), Range(Variable.REPORTS, 500, 1000, 2), ("best", "balle-bennett"))
    )
    assert found["best"].y[0] == epsilon_bracket(mechanism, 500, 1e-6).epsilon_upper
    assert found["balle-bennett"].y[0] == CATALOG["balle-bennett"].epsilon(mechanism, 500, 1e-6).upper


def test_gaussian_noise_has_gaps_where_rounds_would_be_composed() -> None:
    question = SweepQuestion(Description("gaussian", sigma=1.0), 100, 1e-6)
    found = series_of(sweep(question, Range(Variable.ROUNDS, 2, 3, 2), ("best", "clones")))
    assert found["best"].y == found["clones"].y == (None, None)
    assert "no local epsilon" in str(found["best"].why_not)


def test_honest_share_and_dummies_are_asked_about_too() -> None:
    question = SweepQuestion(KRR_16, delta=1e-6, honest_share=0.9, dummies=50)
    found = series_of(sweep(question, Range(Variable.REPORTS, 100, 101, 2), ("best", "attack")))
    assert found["best"].y[0] == epsilon_bracket(KRR.from_local_epsilon(16, 4.0), 90, 1e-6, dummies=50).epsilon_upper
    assert found["attack"].y[0] == epsilon_bracket(KRR.from_local_epsilon(16, 4.0), 90, 1e-6, dummies=50).epsilon_lower


def test_a_bound_outside_its_conditions_is_a_gap_with_its_reason() -> None:
    question = SweepQuestion(replace(KRR_16, categories=None), 2000, 1e-6)
    found = series_of(sweep(question, Range(Variable.CATEGORIES, 2, 4, 3), ("2rr",)))["2rr"]
    assert found.y[0] is not None
    assert found.y[1:] == (None, None)
    assert "2 categories" in str(found.why_not)


def test_values_are_whole_where_they_count_and_include_both_ends() -> None:
    assert Range(Variable.ROUNDS, 1, 10, 25).values() == tuple(float(each) for each in range(1, 11))
    assert Range(Variable.REPORTS, 1e3, 1e6, 4).values() == (1e3, 1e4, 1e5, 1e6)
    assert Range(Variable.LOCAL_EPSILON, 0.5, 2.0, 4).values() == (0.5, 1.0, 1.5, 2.0)
    assert Range(Variable.REPORTS, 100, 300, 3, "linear").values() == (100, 200, 300)
    assert Range(Variable.DELTA, 1e-9, 1e-6, 4).values() == (1e-9, 1e-8, 1e-7, 1e-6)


@pytest.mark.parametrize(
    ("over", "says"),
    [
        (Range(Variable.REPORTS, 1e4, 1e3), "give a --from below --to"),
        (Range(Variable.REPORTS, 1e4, 1e4), "is empty"),
        (Range(Variable.REPORTS, float("nan"), 1e4), "is empty"),
        (Range(Variable.REPORTS, 0, 1e4), "above 0"),
        (Range(Variable.REPORTS, 10, 1e4, 1), "--points is 1"),
        (Range(Variable.REPORTS, 10, 1e4, 10**6), "--points is 1000000"),
    ],
)
def test_an_empty_range_is_refused(over: Range, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        sweep(SweepQuestion(KRR_16, delta=1e-6), over)


def test_what_is_missing_or_said_twice_is_refused() -> None:
    over = Range(Variable.REPORTS, 1e3, 1e4)
    with pytest.raises(UsageError, match="--reports and --delta"):
        sweep(SweepQuestion(KRR_16), over)
    with pytest.raises(UsageError, match="--reports is the variable of --over"):
        sweep(SweepQuestion(KRR_16, reports=5, delta=1e-6), over)
    with pytest.raises(UsageError, match="choose one of: best, attack, whole-law, blanket"):
        sweep(SweepQuestion(KRR_16, delta=1e-6), over, ("zzzz",))
    with pytest.raises(UsageError, match=r"'blankets' is unknown; did you mean blanket\?$"):
        sweep(SweepQuestion(KRR_16, delta=1e-6), over, ("blankets",))


def test_a_number_out_of_range_names_the_point() -> None:
    plan = sweep(SweepQuestion(KRR_16, reports=1000), Range(Variable.DELTA, 0.5, 2.0, 2), ("best",))
    with pytest.raises(AccountingError, match="at delta = 2: delta is 2"):
        evaluate(plan)


def test_default_curves_are_those_that_apply_and_the_same_ones_are_joined() -> None:
    plan = sweep(SweepQuestion(KRR_16, delta=1e-6), Range(Variable.REPORTS, 1e4, 1e5, 2))
    assert len(plan.panels[0].curves) == len(names())
    labels = [each.label for each in only_applying(evaluate(plan)).panels[0].series]
    assert labels[0].startswith("best = blanket")
    assert "attack = krr-lower" in labels
    assert "2rr" not in " ".join(labels)


def test_progress_counts_every_point() -> None:
    plan = sweep(SweepQuestion(KRR_16, delta=1e-6), Range(Variable.REPORTS, 1e4, 1e5, 3), ("best", "local"))
    seen: list[None] = []
    evaluate(plan, lambda: seen.append(None))
    assert len(seen) == plan.points == 6


def test_a_value_that_is_not_finite_is_never_drawn() -> None:
    plan = PanelPlan("", Axis("x"), Axis("y"), (CurvePlan("odd", "upper", (1.0,), lambda _: float("inf")),))
    with pytest.raises(AccountingError, match="odd is inf at 1"):
        evaluate(PlotPlan("", "", (plan,)))


def picture() -> Plot:
    """Five series of eight points, one with a gap, one of lone points, one empty."""
    x = tuple(10.0**power for power in range(1, 9))
    upper = tuple(8 / value**0.5 for value in x)
    series = (
        Series("certified", "upper", x, upper, strong=True),
        Series("attained", "lower", x, tuple(value / 2 for value in upper)),
        Series("with a gap", "upper", x, (*(3 * value for value in upper[:3]), None, *upper[4:])),
        Series("alone", "neither", x, (None, 1.0, None, None, 0.5, None, None, 0.25)),
        Series("nothing", "upper", x, (None,) * 8, why_not="no reason"),
    )
    panel = Panel("left", Axis("reports, n", "log"), Axis("ε (nats)", "log"), series)
    return Plot("A title", "What it shows.", (panel, replace(panel, title="right")))


@pytest.fixture(scope="module")
def svg() -> bytes:
    return drawn(picture(), "svg")


def test_svg_is_xml_with_every_label_and_series(svg: bytes) -> None:
    root = ElementTree.fromstring(svg)
    assert root.tag == f"{SVG}svg"
    words = {"".join(element.itertext()).strip() for element in root.iter(f"{SVG}text")}
    assert {"A title", "left", "right", "reports, n", "ε (nats)"} <= words
    assert {"certified", "attained", "with a gap", "alone", "nothing (nowhere here)"} <= words
    assert "gap between proven and attained" in words
    assert "What it shows." in " ".join(root.itertext())
    ids = {element.get("id") for element in root.iter()}
    assert {f"panel-{panel}-series-{place}" for panel in (1, 2) for place in range(1, 6)} <= ids
    assert {"panel-1-gap", "panel-2-gap"} <= ids


def path_of(root: ElementTree.Element, gid: str) -> str:
    group = next(element for element in root.iter(f"{SVG}g") if element.get("id") == gid)
    return next((path.get("d") or "" for path in group.iter(f"{SVG}path")), "")


def test_a_gap_breaks_the_line_and_is_not_a_number(svg: bytes) -> None:
    root = ElementTree.fromstring(svg)
    whole, broken = path_of(root, "panel-1-series-1"), path_of(root, "panel-1-series-3")
    assert (whole.count("M "), whole.count("L ")) == (1, 7)
    assert (broken.count("M "), broken.count("L ")) == (2, 5)
    assert b"nan" not in svg.lower()


def test_a_curve_spans_its_axes(svg: bytes) -> None:
    """Limits that were frozen before the curves were drawn would leave the axes empty."""
    root = ElementTree.fromstring(svg)
    frame = next(element for element in root.iter(f"{SVG}g") if element.get("id") == "patch_2")
    box = numbers(next(frame.iter(f"{SVG}path")).get("d") or "")
    line = numbers(path_of(root, "panel-1-series-1"))
    for axis in (0, 1):
        low, high = min(box[axis::2]), max(box[axis::2])
        assert low <= min(line[axis::2]) <= max(line[axis::2]) <= high
        assert max(line[axis::2]) - min(line[axis::2]) > 0.3 * (high - low)


def numbers(path: str) -> list[float]:
    return [float(word) for word in path.split() if word not in "MLz"]


def test_points_between_gaps_have_a_marker_each() -> None:
    alone = picture().panels[0].series[3]
    assert all(set(marked(alone, place)) == {1, 4, 7} for place in range(5))


def test_png_decodes_and_shows_something() -> None:
    with Image.open(io.BytesIO(drawn(picture(), "png"))) as image:
        image.load()
        assert image.format == "PNG"
        assert image.width >= 1200
        assert len(set(image.convert("L").tobytes())) > 50


# tests/unit/deploy/demo/test_scenarios.py draws pictures twice, and the test of settings keeps them.
@pytest.mark.exhaustive
@pytest.mark.parametrize("form", ["svg", "png"])
def test_the_same_picture_is_the_same_bytes_whatever_the_users_settings(form: str) -> None:
    first = drawn(picture(), form)
    with mpl.rc_context({"font.size": 30, "lines.linewidth": 9, "svg.fonttype": "path"}):
        assert drawn(picture(), form) == first
        assert mpl.rcParams["font.size"] == 30


def test_settings_of_the_program_around_are_left_as_they_were() -> None:
    with mpl.rc_context({"axes.grid": False}):
        drawn(picture(), "svg")
        assert mpl.rcParams["axes.grid"] is False


def test_curves_differ_by_marker_and_by_line_without_color(svg: bytes) -> None:
    root = ElementTree.fromstring(svg)
    styles = []
    for place in (1, 2, 4):
        group = next(element for element in root.iter(f"{SVG}g") if element.get("id") == f"panel-1-series-{place}")
        lines = [path.get("style") or "" for path in group.iter(f"{SVG}path")]
        styles.append(("stroke-dasharray" in lines[0], [path.get("d") for path in group.iter(f"{SVG}path")][1]))
    assert styles[0][0] is False
    assert styles[1][0] is True
    assert len({shape for _, shape in styles}) == 3


def test_the_document_has_every_point() -> None:
    told = document(picture())
    assert [panel["title"] for panel in told["panels"]] == ["left", "right"]
    assert told["panels"][0]["series"][3]["points"][:2] == [[10.0, None], [100.0, 1.0]]
    assert told["panels"][0]["series"][4]["why_not"] == "no reason"


def test_only_svg_and_png_in_a_folder_that_is_there(tmp_path: Path) -> None:
    assert check_drawable(tmp_path / "a.SVG") == "svg"
    with pytest.raises(UsageError, match=r"name a file that ends in .svg or .png"):
        check_drawable(tmp_path / "a.pdf")
    with pytest.raises(UsageError, match="there is no folder"):
        check_drawable(tmp_path / "missing" / "a.svg")


def test_without_matplotlib_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(DrawingMissing, match=r"hubbub\[plots\].*; or leave out --picture$"):
        check_drawable(tmp_path / "a.svg", "--picture")


@pytest.mark.parametrize(
    ("values", "scale"),
    [([], "linear"), ([0.0, 5.0, 100.0], "linear"), ([1.0, 11.0], "linear"), ([1.0, 13.0], "log")],
)
def test_wide_positive_values_stand_on_a_logarithmic_axis(values: list[float], scale: str) -> None:
    assert scale_of(values) == scale


def test_powers_of_ten_are_written_as_such() -> None:
    assert [shown_power(value) for value in (1e-6, 2e-7, 1e12, 0.5)] == ["10⁻⁶", "2e-07", "10¹²", "0.5"]


def test_over_rounds_each_bound_is_composed_by_the_tightest_of_its_ways() -> None:
    question, over = (
        SweepQuestion(Description("generic", local_epsilon=0.5), 10_000, 1e-6),
        Range(Variable.ROUNDS, 1, 9, 2),
    )
    ways: dict[str, tuple[Composition, ...]] = {
        "krr-lower": ("losses",),
        "girgis-upper-2": ("rdp",),
        "clones-closed": ("advanced", "basic"),
        "local": ("basic",),
    }
    found = series_of(sweep(question, over, (*ways, "girgis-lower")))
    part = Part(Generic(0.5), 10_000, 9)
    for name, tried in ways.items():
        assert found[name].y[-1] == min(composed_epsilon(CATALOG[name], part, 1e-6, way) for way in tried)
    assert found["girgis-lower"].y == (None, None)
    assert "Lemma 2.1 makes no lower bound" in str(found["girgis-lower"].why_not)


def test_outside_conditions_alone_make_gaps() -> None:
    def at(x: float) -> float:
        if x < 2:
            raise OutsideConditions("too small")
        return x

    plan = PanelPlan("", Axis("x"), Axis("y"), (CurvePlan("from 2", "upper", (1.0, 2.0), at),))
    assert evaluate(PlotPlan("", "", (plan,))).panels[0].series[0].y == (None, 2.0)
