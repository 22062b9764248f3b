"""The panels of the Grafana dashboard, in rows by what an operator asks.

`hubbub_SERVICE_` stands for each service that exports the metric.
"""

from __future__ import annotations

from dataclasses import dataclass

_PLACE = 'instance=~"$instance"'
_TASK = f'{_PLACE}, task=~"$task"'


@dataclass(frozen=True)
class Panel:
    """A graph: its queries with their legends, what it shows, its unit as Grafana names it, and alerts on it."""

    title: str
    meaning: str
    queries: tuple[tuple[str, str], ...]
    unit: str = "short"
    alerts: tuple[str, ...] = ()
    from_zero: bool = True


def _now(metric: str, legend: str, labels: str = _PLACE) -> tuple[str, str]:
    return f"{metric}{{{labels}}}", legend


def _grown(metric: str, by: str, labels: str = _PLACE) -> tuple[str, str]:
    """Return what a counter grew by in an interval of the graph."""
    legend = " ".join(f"{{{{{label}}}}}" for label in by.split(", "))
    return f"sum by ({by}) (increase({metric}{{{labels}}}[$__rate_interval]))", legend


def _rate(series: str) -> str:
    return f"sum by (stage) (rate({_STAGE}_{series}{{{_PLACE}}}[$__rate_interval]))"


_WHERE = "{{instance}}"
_STAGE = "hubbub_SERVICE_stage_duration_seconds"
_PROXY = 'haproxy_backend_connection_errors_total{proxy="shuffler"}'

_ALIVE = (
    Panel(
        "Services that answer",
        "1 if Prometheus reads the service's metrics, 0 if not.",
        ((f'up{{job=~"hubbub.*", {_PLACE}}}', "{{job}} {{instance}}"),),
        alerts=("HubbubDown",),
    ),
    Panel(
        "Incidents",
        "Open incidents by kind. `hubbub status` has their sentences.",
        (_now("hubbub_SERVICE_incidents", "{{instance}} {{kind}}"),),
        alerts=("HubbubStepFails",),
    ),
    Panel(
        "Leader and standbys",
        "Which shuffler keeps rounds, in which term, and how many standbys are missing.",
        (
            _now("hubbub_shuffler_leader", "{{instance}} leads"),
            _now("hubbub_shuffler_term", "{{instance}} term"),
            _now("hubbub_shuffler_standbys_missing", "{{instance}} standbys missing"),
        ),
        alerts=("HubbubStandbyMissing",),
    ),
    Panel(
        "Running since",
        "How long each process has run.",
        ((f'time() - process_start_time_seconds{{job=~"hubbub.*", {_PLACE}}}', _WHERE),),
        unit="s",
    ),
    Panel(
        "Versions",
        "How many services run each version of hubbub.",
        ((f"count by (version) (hubbub_SERVICE_build_info{{{_PLACE}}})", "SERVICE {{version}}"),),
    ),
    Panel(
        "The log",
        "Lines lost, and lines that wait to be written.",
        (
            _grown("hubbub_SERVICE_log_lines_lost_total", "instance"),
            _now("hubbub_SERVICE_log_lines_waiting", "{{instance}} waiting"),
        ),
        alerts=("HubbubLogLost",),
    ),
)

_TRACES = (
    Panel(
        "Spans of traces",
        "Spans that the collector took, and spans that were lost. All are 0 without an endpoint in `[traces]`.",
        (_grown("hubbub_SERVICE_spans_total", "instance, result"),),
    ),
)

_TAKES = (
    Panel(
        "Submissions",
        "Submissions accepted, retried and refused. While a round is OPEN, they grow in steps of `count_step`.",
        (_grown("hubbub_shuffler_submissions_total", "task, result", _TASK),),
        alerts=("HubbubOverloaded", "HubbubTakesNoMore"),
    ),
    Panel(
        "The proxy",
        "Connections that the proxy could not open to the shuffler, so that devices got 503.",
        (
            (
                f"sum by (proxy) (increase({_PROXY}[$__rate_interval]))",
                "{{proxy}}",
            ),
        ),
        alerts=("HubbubProxyCutOff",),
    ),
    Panel(
        "Calls in work",
        "Calls in work, and calls whose message is not whole yet, by port.",
        (
            _now("hubbub_SERVICE_calls_in_work", "{{instance}} {{port}} in work"),
            _now("hubbub_SERVICE_calls_unfinished", "{{instance}} {{port}} unfinished"),
        ),
    ),
    Panel(
        "Queues",
        "What waits, or is in work, at each service.",
        (_now("hubbub_SERVICE_queue_depth", "{{instance}} {{queue}}"),),
    ),
    Panel(
        "Seconds of a stage",
        "The time under which 95 % of a stage's pieces of work stayed.",
        (
            (
                f"histogram_quantile(0.95, sum by (stage, le) (rate({_STAGE}_bucket{{{_PLACE}}}[$__rate_interval])))",
                "SERVICE {{stage}}",
            ),
        ),
        unit="s",
    ),
    Panel(
        "Mean seconds of a stage",
        "The mean time of a stage's pieces of work.",
        (
            (
                f"{_rate('sum')} / {_rate('count')}",
                "SERVICE {{stage}}",
            ),
        ),
        unit="s",
    ),
)

_REFUSED = (
    Panel(
        "Refused submissions",
        "Submissions that were refused, by reason.",
        (_grown("hubbub_shuffler_submissions_total", "reason", f'{_TASK}, result="refused"'),),
        alerts=("HubbubKeysDiffer", "HubbubOverloaded", "HubbubTakesNoMore"),
    ),
    Panel(
        "Refused deliveries",
        "Calls of the shuffler before it that a hop or an analyzer refused, by reason.",
        (_grown("hubbub_SERVICE_deliveries_refused_total", "instance, reason"),),
        alerts=("HubbubForked",),
    ),
    Panel(
        "Reports",
        "Reports of counted batches: counted, and left out by reason. The shuffler's noise is not among them.",
        (_grown("hubbub_analyzer_reports_total", "task, query, result, reason", _TASK),),
    ),
    Panel(
        "Refused results",
        "Results that were asked for and not shown, by reason.",
        (_grown("hubbub_analyzer_results_refused_total", "reason"),),
    ),
    Panel(
        "Calls refused by a limit",
        "Calls that a limit of their port refused.",
        (_grown("hubbub_SERVICE_calls_refused_total", "instance, port, limit"),),
    ),
    Panel(
        "Seconds with a full limit",
        "Seconds in which a limit of a port refused calls.",
        (_grown("hubbub_SERVICE_limit_full_seconds_total", "instance, port, limit"),),
        unit="s",
        alerts=("HubbubLimitFull",),
    ),
)

_ROUNDS = (
    Panel(
        "Rounds by state",
        "Rounds in each state, at the shuffler and at the analyzer.",
        (_now("hubbub_SERVICE_rounds", "SERVICE {{task}} {{state}}", _TASK),),
    ),
    Panel(
        "Batches at hops",
        "Batches in each state at each hop.",
        (_now("hubbub_hop_batches", "{{instance}} {{task}} {{state}}", _TASK),),
    ),
    Panel(
        "Rounds with incidents",
        "Rounds that something delays, at the shuffler and at the analyzer.",
        (_now("hubbub_SERVICE_rounds_with_incidents", "SERVICE {{task}}", _TASK),),
        alerts=("HubbubRoundHeldUp", "HubbubRoundNotCertified"),
    ),
    Panel(
        "Age of the oldest round",
        "How long the oldest round has been in a state that it should leave within minutes.",
        (_now("hubbub_SERVICE_round_age_seconds", "SERVICE {{task}} {{state}}", _TASK),),
        unit="s",
        alerts=("HubbubRoundStuck",),
    ),
    Panel(
        "Noise of hops",
        "Reports that hops added to batches as noise.",
        (_grown("hubbub_hop_noise_added_total", "instance, task", _TASK),),
    ),
)

_RESOURCES = (
    Panel(
        "Free on the store's disk",
        "Bytes free on the disk of each store.",
        (_now("hubbub_SERVICE_store_free_bytes", _WHERE),),
        unit="bytes",
        alerts=("HubbubDiskFillsUp",),
    ),
    Panel(
        "Size of the store",
        "Bytes of each store's files.",
        (_now("hubbub_SERVICE_store_size_bytes", _WHERE),),
        unit="bytes",
    ),
    Panel(
        "Memory",
        "Memory of each service's main process.",
        (_now("process_resident_memory_bytes", _WHERE, f'job=~"hubbub.*", {_PLACE}'),),
        unit="bytes",
    ),
    Panel(
        "Cores in use",
        "Processor time of each service's main process in a second.",
        ((f'rate(process_cpu_seconds_total{{job=~"hubbub.*", {_PLACE}}}[$__rate_interval])', _WHERE),),
    ),
    Panel(
        "Open files",
        "File descriptors that each service's main process has open, as a share of the most that it may open.",
        (
            (
                f'process_open_fds{{job=~"hubbub.*", {_PLACE}}} / process_max_fds{{job=~"hubbub.*", {_PLACE}}}',
                _WHERE,
            ),
        ),
        unit="percentunit",
    ),
)

_CERTIFICATES = (
    Panel(
        "TLS certificates",
        "How long the TLS certificates in use are still valid.",
        (_now("hubbub_SERVICE_certificate_remaining_seconds", "{{instance}} {{certificate}}"),),
        unit="s",
        alerts=("HubbubCertificateEnds",),
        from_zero=False,
    ),
)

_BUDGET = (
    Panel(
        "ε spent",
        "ε of all rounds charged so far, and the task's `epsilon_total`.",
        (
            _now("hubbub_SERVICE_epsilon_spent", "SERVICE {{task}} spent", _TASK),
            _now("hubbub_SERVICE_epsilon_budget", "SERVICE {{task}} budget", _TASK),
        ),
        alerts=("HubbubBudgetNearlySpent",),
    ),
    Panel(
        "Share of the budget",
        "ε spent, as a share of `epsilon_total`.",
        ((f"hubbub_SERVICE_epsilon_spent{{{_TASK}}} / hubbub_SERVICE_epsilon_budget{{{_TASK}}}", "SERVICE {{task}}"),),
        unit="percentunit",
    ),
)

ROWS: tuple[tuple[str, tuple[Panel, ...]], ...] = (
    ("Is it alive?", _ALIVE),
    ("Does it take submissions?", _TAKES),
    ("What is refused, and why?", _REFUSED),
    ("Where do rounds stand?", _ROUNDS),
    ("Is there room: disk, memory, processor?", _RESOURCES),
    ("Which certificates end?", _CERTIFICATES),
    ("How much of the budget is spent?", _BUDGET),
    ("Do traces arrive?", _TRACES),
)
"""The rows of the dashboard: a question, and the panels that answer it."""
