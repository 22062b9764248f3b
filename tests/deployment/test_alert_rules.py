"""Prometheus' own promtool evaluates every alert: it fires when it should, and is quiet otherwise."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

RULES = Path(__file__).parents[2] / "deploy" / "alerts" / "hubbub.yaml"
ALERTS = {rule["alert"]: rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]}
MINUTES = 70
"""Each series has a value a minute, and alerts are evaluated at the end."""

needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")

GROWS, RESTS = f"0+1x{MINUTES}", f"7x{MINUTES}"
"""A counter that grows by one a minute, and one that does not grow."""

CASES: dict[str, tuple[str, str, str]] = {
    "HubbubDown": ('up{job="hubbub-shuffler"}', f"0x{MINUTES}", f"1x{MINUTES}"),
    "HubbubProxyCutOff": ('haproxy_backend_connection_errors_total{proxy="shuffler"}', GROWS, RESTS),
    "HubbubStepFails": ('hubbub_analyzer_incidents{kind="store"}', f"1x{MINUTES}", f"0x{MINUTES}"),
    "HubbubRoundHeldUp": ('hubbub_shuffler_rounds_with_incidents{task="t"}', f"1x{MINUTES}", f"0x{MINUTES - 5} 1x5"),
    "HubbubForked": ('hubbub_analyzer_deliveries_refused_total{reason="forked"}', GROWS, RESTS),
    "HubbubRoundStuck": ('hubbub_shuffler_round_age_seconds{state="cut"}', f"0+60x{MINUTES}", f"3600x{MINUTES}"),
    "HubbubRoundNotCertified": ('hubbub_analyzer_rounds_with_incidents{task="t"}', f"2x{MINUTES}", f"0x{MINUTES}"),
    "HubbubLogLost": ("hubbub_hop_log_lines_lost_total", GROWS, RESTS),
    "HubbubStandbyMissing": ("hubbub_shuffler_standbys_missing", f"1x{MINUTES}", f"0x{MINUTES}"),
    "HubbubOverloaded": ('hubbub_shuffler_submissions_total{reason="overloaded"}', GROWS, RESTS),
    "HubbubTakesNoMore": ('hubbub_shuffler_submissions_total{reason="disk_full"}', GROWS, RESTS),
    "HubbubKeysDiffer": ('hubbub_shuffler_submissions_total{reason="unopenable"}', f"0+2x{MINUTES}", GROWS),
    "HubbubDiskFillsUp": ("hubbub_analyzer_store_free_bytes", f"3.9e9x{MINUTES}", f"4e9x{MINUTES}"),
    "HubbubBudgetNearlySpent": ('hubbub_shuffler_epsilon_spent{task="t"}', f"2.5x{MINUTES}", f"2.4x{MINUTES}"),
    "HubbubCertificateEnds": (
        'hubbub_hop_certificate_remaining_seconds{file="tls.pem"}',
        f"2591999x{MINUTES}",
        f"2592000x{MINUTES}",
    ),
    "HubbubLimitFull": ('hubbub_shuffler_limit_full_seconds_total{limit="connections"}', GROWS, RESTS),
}
"""By alert: a series, its values when the alert fires, and its values when the alert is quiet."""

BESIDE = {"HubbubBudgetNearlySpent": {"series": 'hubbub_shuffler_epsilon_budget{task="t"}', "values": f"3x{MINUTES}"}}
"""A second series that an alert compares with."""


def test_every_alert_is_tried() -> None:
    assert sorted(CASES) == sorted(ALERTS)


@needs_promtool
def test_rules_are_valid() -> None:
    done = subprocess.run(["promtool", "check", "rules", str(RULES)], capture_output=True, text=True)
    assert (done.returncode, f"{len(ALERTS)} rules found" in done.stdout) == (0, True), done.stdout + done.stderr


@needs_promtool
def test_each_alert_fires_when_it_should_and_never_otherwise(tmp_path: Path) -> None:
    tests = [_case(alert, values, fires=fires) for alert, (_, *ways) in CASES.items() for values, fires in _ways(ways)]
    file = tmp_path / "alerts.json"
    file.write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}))
    done = subprocess.run(["promtool", "test", "rules", str(file)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def _ways(ways: list[str]) -> list[tuple[str, bool]]:
    return list(zip(ways, (True, False), strict=True))


def _case(alert: str, values: str, *, fires: bool) -> dict[str, Any]:
    """Return promtool's test that the alert fires with these values, or that no alert at all fires."""
    series = CASES[alert][0]
    labels = dict(pair.split("=") for pair in series.partition("{")[2].rstrip("}").split(",") if pair)
    expected = {
        "exp_labels": {name: value.strip('"') for name, value in labels.items()} | ALERTS[alert]["labels"],
        "exp_annotations": ALERTS[alert]["annotations"],
    }
    checked = [alert] if fires else sorted(ALERTS)
    return {
        "interval": "1m",
        "input_series": [{"series": series, "values": values}, *([BESIDE[alert]] if alert in BESIDE else [])],
        "alert_rule_test": [
            {"eval_time": f"{MINUTES}m", "alertname": name, "exp_alerts": [expected] if fires else []}
            for name in checked
        ],
    }
