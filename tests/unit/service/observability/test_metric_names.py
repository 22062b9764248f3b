"""Names of metrics follow Prometheus' rules, and what is rounded says so."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator

import pytest
from prometheus_client import Gauge, generate_latest

from hubbub.service.observability.rounding import ROUNDED, CountRounding, RoundedRegistry
from support.source_tree import ROOT

PAGE = ROOT / "docs" / "reference" / "metrics.md"
NOT_BASE_UNITS = re.compile(r"(^|_)(days?|hours?|minutes?|weeks?|ms|millis\w*|us|kb|mb|gb|kilo\w*|mega\w*)(_|$)")
"""Units in place of which promtool asks for seconds and bytes."""


def metrics() -> Iterator[tuple[str, str, str]]:
    """All metrics of all services, with their types and HELP, from the page that is made from the code."""
    for line in PAGE.read_text().splitlines():
        row = re.fullmatch(r"\| `((?:hubbub|process)_\w+)` \| (\w+) \|.*\| ([^|]+) \|", line)
        if row is not None:
            yield row[1], row[2], row[3].strip()


def test_names_and_types_follow_the_rules() -> None:
    found = list(metrics())
    assert len(found) > 40
    for name, kind, meaning in found:
        assert re.fullmatch("[a-z][a-z0-9_]*", name), name
        assert not NOT_BASE_UNITS.search(name), name
        assert name.endswith("_total") == (kind == "counter"), name
        assert not name.endswith(("_count", "_sum", "_bucket")), name
        assert not {"gauge", "counter", "histogram", "summary"} & set(name.split("_")), name
        assert meaning, name


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_finds_nothing() -> None:
    lines = []
    for name, kind, meaning in metrics():
        shown = {"info": "gauge"}.get(kind, kind)
        lines += [f"# HELP {name} {meaning}", f"# TYPE {name} {shown}"]
        if kind == "histogram":
            lines += [f'{name}_bucket{{le="+Inf"}} 1', f"{name}_sum 1", f"{name}_count 1"]
        else:
            lines.append(f"{name} 1")
    text = "\n".join(lines) + "\n"
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_a_rounded_number_of_the_process_says_so_and_an_exact_one_does_not() -> None:
    for step, says in ((100, True), (1, False)):
        registry = RoundedRegistry(CountRounding(step), lambda name, _labels: name == "process_max_fds")
        for name in ("process_open_fds", "process_max_fds"):
            Gauge(name, "File descriptors.", registry=registry).set(7)
        helps = dict(re.findall("# HELP (\\S+) (.*)", generate_latest(registry).decode()))
        assert (ROUNDED in helps["process_open_fds"]) is says
        assert ROUNDED not in helps["process_max_fds"]
