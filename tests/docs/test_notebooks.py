"""Every notebook runs, says what its prose says, and is shown with its outputs; a broken one stops the build."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from extensions.notebooks import FOLDER, NotebookError, executed, sources, with_outputs
from support.messages import NOT_SIGNED_BY
from support.source_tree import ROOT

NAMES = [path.stem for path in sources()]


@cache
def page(name: str) -> str:
    """The page of a notebook, run once for all tests."""
    return with_outputs((FOLDER / f"{name}.md").read_text(), name)


@cache
def printed(name: str) -> str:
    return "\n".join(re.findall(r"(?ms)^```text\n(.*?)^```$", page(name)))


def test_each_notebook_is_short_and_on_the_front_page() -> None:
    front = (FOLDER / "index.md").read_text()
    assert [name for name in NAMES if f"({name}.md)" not in front] == []
    assert len(NAMES) == 4
    assert {name: lines for name in NAMES if (lines := (FOLDER / f"{name}.md").read_text().count("\n")) >= 150} == {}


def test_each_planned_error_falls_with_epsilon_and_noise_is_less() -> None:
    text = printed("plan-a-task")
    assert 0 < float(re.findall(r"standard error of 15: (\S+)", text)[0]) < 1
    errors = [(float(a), float(b)) for a, b in re.findall(r"off by ([\d.]+) without noise, by ([\d.]+) with it", text)]
    assert len(errors) == 3
    assert all(noisy < plain for plain, noisy in errors)
    assert errors == sorted(errors)  # the error of a count grows with the people
    rows = {
        (added, float(cap)): (float(local), float(error))
        for added, cap, local, error in re.findall(r"(?m)^(noise|nothing) +(\S+) +(\S+) +(\S+)$", text)
    }
    assert rows["noise", 4][1] > rows["noise", 8][1] > rows["noise", 10][1]
    assert rows["noise", 8][0] == 8  # devices randomize as little as the cap allows
    assert rows["nothing", 8] == rows["nothing", 14]  # the cap does not bind
    assert page("plan-a-task").count("<img alt=") == 2


def test_a_series_of_four_rounds_is_read_with_its_truth_and_a_picture() -> None:
    text = printed("read-a-series")
    assert re.findall(r"round (\d): (\d+) devices, (\d+) valid", text) == [
        (str(number), str(people), str(people)) for number, people in enumerate((200, 220, 180, 240))
    ]
    assert "Verified: " in text
    assert "NOT" not in text
    shown = page("read-a-series")
    assert shown.count('<img alt="Three series') == 1
    assert shown.count("<tr>") >= 12
    assert "<style" not in shown
    # Sixty more bicycles, off by ten standard errors in fewer than one run of 1e20.
    (difference,) = re.findall(r"bicycles: (\S+), 95 %", text)
    assert 20 < float(difference) < 100


def test_the_part_of_the_analyst_is_five_lines() -> None:
    text = (FOLDER / "read-a-series.md").read_text()
    (cell,) = re.findall(r"(?ms)^```python alt[^\n]*\n(.*?)^```$", text)
    assert len([line for line in cell.splitlines() if line.strip()]) <= 5
    assert ".read(" in cell
    assert ".plot()" in cell


def test_amplification_noise_and_honesty_are_as_the_prose_says() -> None:
    text = printed("explore-amplification")
    enough = [int(each.replace(",", "")) for each in re.findall(r": ([\d,]+) reports are enough", text)]
    assert len(enough) == 3
    assert enough == sorted(set(enough))
    laws = re.findall(r"deviation ([\d.]+): ε = ([\d.]+) in one round, ([\d.]+) in twelve", text)
    (geometric, gaussian) = [tuple(map(float, each)) for each in laws]
    assert geometric[0] == gaussian[0]
    assert geometric[1] < gaussian[1]
    assert geometric[2] > gaussian[2]
    rungs = [(float(a), float(b)) for a, b in re.findall(r"ε ≤ ([\d.]+), without noise ([\d.]+), if", text)]
    assert rungs == sorted(rungs)
    assert len(rungs) == 4
    assert rungs[-1][0] < 1
    assert rungs[-1][1] == 4
    assert page("explore-amplification").count("<img alt=") == 2


def test_the_certificate_is_valid_and_every_forgery_is_refused() -> None:
    text = printed("check-a-certificate")
    assert "the certificate is valid: task commute, round 0; operator, shuffler and analyzer are as pinned" in text
    assert "anybody could have made it" in text
    assert f"certificate's {NOT_SIGNED_BY}" in text
    assert "operator" in text.split("anybody could have made it")[1].split("exit status 1")[0]
    assert text.count("exit status 1") == 2
    assert "REFUSED:" in text
    assert "round 1: its certificate is missing" in text
    assert "hubbub-" not in text  # a folder that is another one in each run


def test_a_cell_that_fails_or_warns_stops_it_and_the_error_names_the_notebook() -> None:
    with pytest.raises(NotebookError, match=r"(?s)broken: a cell failed.*ZeroDivisionError"):
        executed("```python\n1 / 0\n```\n", "broken", ROOT)
    with pytest.raises(NotebookError, match=r"loud: a cell wrote on stderr.*careful"):
        executed("```python\nimport warnings\nwarnings.warn('careful')\n```\n", "loud", ROOT)


def test_outputs_are_below_their_cells_and_a_picture_needs_words(tmp_path: Path) -> None:
    tmp_path = tmp_path.resolve()
    text = "# T\n\n```sh\nprintf '\\033[1mbold\\033[0m'; pwd\n```\n\nBetween.\n\n```python\n'last'\n```\n"
    assert with_outputs(text, "small", tmp_path) == (
        "# T\n\n```sh\nprintf '\\033[1mbold\\033[0m'; pwd\n```\n" + f"\n```text\nbold{tmp_path}\n```\n" + "\n\n"
        "Between.\n\n```python\n'last'\n```\n" + "\n```text\n'last'\n```\n" + "\n"
    )
    drawing = (
        "```python\nfrom IPython.display import display\ndisplay({'image/svg+xml': '<svg/>'}, raw=True)\n```\n"
        "\n```text\nno cell\n```\n"
    )
    with pytest.raises(NotebookError, match="blocks of code"):
        with_outputs(drawing, "other", tmp_path)
    with pytest.raises(NotebookError, match="nothing says what"):
        with_outputs(drawing.split("\n\n")[0] + "\n", "blind", tmp_path)


def test_the_variables_of_whoever_builds_change_no_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.setenv("HUBBUB_SETTINGS", "recognizable")
    text = (
        '```python alt="a line"\nimport os\nfrom matplotlib import pyplot\n_ = pyplot.plot([1, 2])\n'
        "print(os.environ.get('HUBBUB_SETTINGS'), '\\n```\\n# No heading')\n```\n"
    )
    shown = with_outputs(text, "drawn", tmp_path)
    assert '<img alt="a line"' in shown
    assert "\n````text\nNone \n```\n# No heading\n````\n" in shown
    with pytest.raises(NotebookError, match="draws nothing"):
        with_outputs('```python alt="a line"\n1\n```\n', "empty", tmp_path)
