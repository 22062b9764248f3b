"""The page on alerts: every rule of deploy/alerts, with what to do when it fires."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from reference.making.page import Page, Section, anchor, code, divided, fenced, section, sentence, table, wrapped
from reference.making.refusals import INCIDENTS
from reference.making.source import ROOT

RULES = ROOT / "deploy" / "alerts" / "hubbub.yaml"
"""The rules, as Prometheus reads them."""

SEVERITIES: Mapping[str, str] = {
    "page": "Somebody has to look now.",
    "ticket": "Somebody has to look within days.",
}
"""What each severity of a rule means."""

_NAMED = re.compile(r"hubbub_(?:shuffler|hop|analyzer)_[a-z_]+")


@dataclass(frozen=True)
class Rule:
    """An alert: when it fires, how long that must last, how urgent it is, what it means and what to do."""

    name: str
    expression: str
    lasts: str
    severity: str
    summary: str
    remedy: str
    incident: str

    @property
    def metrics(self) -> list[str]:
        """The metrics of hubbub that the expression names."""
        return _NAMED.findall(self.expression)


def rules() -> list[Rule]:
    """Return every rule.

    Raises:
        ValueError: if a rule lacks something that the page shows.
    """
    return [
        _rule(each) for group in yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"] for each in group["rules"]
    ]


def _rule(each: Mapping[str, Any]) -> Rule:
    annotations = each.get("annotations", {})
    found = Rule(
        each["alert"],
        str(each["expr"]).strip(),
        str(each["for"]),
        each.get("labels", {}).get("severity", ""),
        annotations.get("summary", ""),
        annotations.get("remedy", ""),
        annotations.get("incident", ""),
    )
    if found.severity not in SEVERITIES or not found.summary or not found.remedy:
        raise ValueError(f"{RULES.name}: {found.name} needs a severity, a summary and a remedy")
    return found


def pages() -> list[Page]:
    """Return the page on alerts."""
    found = rules()
    overview = [[f"[{code(each.name)}](#{anchor(each.name)})", each.severity, sentence(each.summary)] for each in found]
    use = (
        "`deploy/alerts/hubbub.yaml` has these rules. Name the file under `rule_files` of Prometheus. Give the jobs "
        "that read the services' [metrics](metrics.md) names that begin with `hubbub`. `deploy/alerts/dashboard.json` "
        "is a dashboard for Grafana: each alert has a panel there, which shows what the alert compares."
    )
    severities = [[code(name), meaning] for name, meaning in SEVERITIES.items()]
    return divided(
        Page(
            "alerts",
            "Alerts",
            "Which alerts are worth having, and what do you do when one fires?",
            "every alerting rule: expression, severity, what to do",
            (
                section("", wrapped(use), table(("severity", "means"), severities)),
                section("All rules", table(("alert", "severity", "means"), overview)),
                *map(_section, found),
            ),
        )
    )


def _section(rule: Rule) -> Section:
    return section(rule.name, *_blocks(rule))


def _blocks(rule: Rule) -> Iterator[list[str]]:
    yield wrapped(f"{sentence(rule.summary)} {sentence(rule.remedy)}")
    yield fenced("text", rule.expression)
    lasts = "as soon as that is so" if rule.lasts in ("0m", "0s") else f"if that lasts {rule.lasts}"
    more = f" See [{rule.incident}]({INCIDENTS}#{anchor(rule.incident)})." if rule.incident else ""
    yield wrapped(f"It fires {lasts}, with severity {code(rule.severity)}.{more}")
