"""The page on refusals: every reason with its codes, who counts it, what it means and what to do."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from hubbub.analyzer import metrics as analyzer_metrics
from hubbub.protos.records.batch import AT_A_HOP, LeftOut
from hubbub.protos.refusals import EXPLANATIONS, TRANSIENT, Explanation, Reason
from hubbub.protos.transport.connect_codes import code_of
from hubbub.protos.transport.statuses import STATUS
from hubbub.shuffler import metrics as shuffler_metrics
from reference.making.page import Page, Section, anchor, code, divided, section, table, wrapped
from reference.making.source import member_docs

INCIDENTS = "../howto/respond-to-incidents.md"
"""The page with what to do about an incident, a heading each."""

_COUNTERS: Mapping[str, Collection[Reason]] = {
    "hubbub_shuffler_submissions_total": shuffler_metrics.REFUSED,
    "hubbub_analyzer_deliveries_refused_total": analyzer_metrics.REFUSED,
    "hubbub_analyzer_results_refused_total": analyzer_metrics.RESULTS_REFUSED,
}
"""The metrics that show a reason from the start, with 0."""

_HOW = (
    "A refusal has a reason. The same name of the reason is in answers, counts, signed batch records and metrics. "
    "On the wire it is `hubbub-reason` in the trailing metadata of gRPC, with the status below; by HTTPS the status "
    "becomes a code of the Connect protocol. A client sends again by itself if the reason passes; "
    "[the wire](../wire-calls.md#what-a-refusal-obliges-to) has its duty for each reason."
)
_COUNTED = (
    "The shuffler counts every refused submission by task and reason in "
    "[`hubbub_shuffler_submissions_total`](metrics.md). The analyzer and each hop count refused deliveries in "
    "`hubbub_analyzer_deliveries_refused_total` and `hubbub_hop_deliveries_refused_total`. A metric that a reason "
    "names shows it from the start, with 0; any other reason appears in it when it first occurs."
)


def pages() -> list[Page]:
    """Return the page on refusals.

    Raises:
        ValueError: if a reason has no explanation.
    """
    missing = [reason.value for reason in Reason if reason not in EXPLANATIONS]
    if missing:
        raise ValueError(f"protos/refusals.py: EXPLANATIONS lacks {', '.join(missing)}")
    summary = [
        [
            f"[{code(reason.value)}](#{anchor(reason.value)})",
            EXPLANATIONS[reason].who,
            "yes" if reason in TRANSIENT else "no",
            EXPLANATIONS[reason].meaning,
        ]
        for reason in Reason
    ]
    left_out = member_docs(LeftOut)
    rows = [
        [code(each.value), "hop, analyzer" if each in AT_A_HOP else "analyzer", left_out[each.value]]
        for each in LeftOut
    ]
    return divided(
        Page(
            "refusals",
            "Refusals",
            "A service refused a call. What does the reason mean, and what do you do?",
            "every reason: code, who counts it, meaning, remedy",
            (
                section("", wrapped(_HOW), wrapped(_COUNTED)),
                section("All reasons", table(("reason", "who gets it", "passes", "means"), summary)),
                *(_section(reason, EXPLANATIONS[reason]) for reason in Reason),
                section(
                    "Reports left out",
                    wrapped(
                        "A report that was delivered and not counted is no refusal. The certificate counts it in "
                        "`left_out`, under one of these reasons."
                    ),
                    table(("left out", "by", "means"), rows),
                ),
            ),
        )
    )


def _section(reason: Reason, explained: Explanation) -> Section:
    status = STATUS[reason]
    counted = [code(metric) for metric, shown in _COUNTERS.items() if reason in shown]
    more = f" See [{explained.incident}]({INCIDENTS}#{anchor(explained.incident)})." if explained.incident else ""
    codes = f"gRPC {code(status.name)}, Connect {code(code_of(status))}."
    shown_in = f" Shown from the start in {' and '.join(counted)}." if counted else ""
    return section(
        reason.value, wrapped(f"{explained.meaning} {explained.remedy}{more}"), wrapped(f"{codes}{shown_in}")
    )
