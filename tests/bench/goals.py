"""What is measured, against what, and the goal for the ratio of the two: the rows of `make bench`, by subject.

`docs/reference/speed.md` is made from this and from the figures in `docs/reference/bench.json`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

MOST_SPREAD = 0.1
"""How far the middle half of a row's limits may reach, as a share of their median, if the row is judged: nothing but
the machine makes a limit differ from itself."""

MOST_OTHERS = 0.05
"""Share of all cores that other programs may take meanwhile."""


@dataclass(frozen=True)
class RowGoal:
    """The goal of a row: what is measured, its limit in words, and the ratio, which is reached at most or at least."""

    what: str
    against: str
    ratio: float
    upper: bool

    def is_reached(self, ratio: float) -> bool:
        """Return whether a ratio reaches the goal."""
        return ratio <= self.ratio if self.upper else ratio >= self.ratio

    def verdict(self, ratio: float, spread: float, others: float) -> str:
        """Return whether the median `ratio` reaches the goal, if the machine was quiet enough to judge.

        `spread` is that of the row's own limits, `others` the share of the cores that other programs took.
        """
        if spread > MOST_SPREAD or others > MOST_OTHERS:
            return "not judged"
        return "reached" if self.is_reached(ratio) else "MISSED"

    def __str__(self) -> str:
        return f"{'≤' if self.upper else '≥'} {self.ratio:g}"


def most(ratio: float, what: str, against: str) -> RowGoal:
    """Return the goal of what should be small."""
    return RowGoal(what, against, ratio, upper=True)


def least(ratio: float, what: str, against: str) -> RowGoal:
    """Return the goal of what should be large."""
    return RowGoal(what, against, ratio, upper=False)


OPENS = "opens of the outer layer alone, all cores"
INNER_OPENS = "opens of the inner layer alone, all cores"

STARTING = {
    "command_help": most(1, "`hubbub --help`, in seconds of the processor", "0.15 s"),
    "import_client": most(1, "`import hubbub.client`, in seconds of the processor", "0.15 s"),
    "start_shuffler": most(1, "from the command to ports that serve", "1.5 s"),
    "start_analyzer": most(1, "the same", "1.5 s"),
    "restart": most(1, "the same, with 10⁶ submissions of a round under way in the shuffler's store", "2.5 s"),
    "restart_large": most(1, "the same with 10⁷ (`--large`)", "10 s"),
}

DEVICE = {
    "prepare_histogram": most(
        1.05,
        "a device encodes, randomizes and seals its answer to one query",
        "1.072 times its two seals alone: what it took when there were histograms and sums only",
    ),
    "prepare_sum": most(1.05, "the same for a sum", "1.15 times its two seals alone, likewise"),
    "seal_mlkem768-x25519": most(1.6, "one layer sealed post-quantum, on one core", "the same in X25519"),
    "open_mlkem768-x25519": most(2.6, "one layer opened post-quantum, on one core", "the same in X25519"),
}

SUBMITTING = {
    "submit": least(
        0.6,
        "`Submit`, one enrolled device and one query a call, TLS, its proof checked, on disk before the answer",
        "the same server, the same bytes, nothing to do",
    ),
    "submit_batch": least(
        0.7, "`SubmitBatch`, 100 enrolled devices a call, proofs checked, opened, on disk before the answer", OPENS
    ),
    "submit_polled": least(
        0.9,
        "the same calls, while a [dashboard](../howto/look-at-results-in-a-browser.md) on the same machine is looked "
        "at each second",
        "the same without it",
    ),
    "submit_https": least(
        0.35,
        "`Submit` by HTTPS, one enrolled device a call, a [worker](../howto/scale.md) a core, on disk before the "
        "answer",
        OPENS,
    ),
    "submit_https_over_grpc_then": least(
        4, "the same", "gRPC's `submit` when the goal was set: 0.55 of its server with nothing to do"
    ),
    "submit_https_over_grpc": least(4, "the same", "gRPC's `submit` in the same run"),
    "submit_batch_https": least(0.75, "`SubmitBatch` by HTTPS, 100 enrolled devices a call", OPENS),
    "ohttp_call": most(
        1.2,
        "what `Submit` through a [relay](../howto/hide-addresses.md) costs the port more than a bare one",
        "a bare open",
    ),
    "frontends": least(
        1.5,
        "`SubmitBatch`, 100 enrolled devices a call, through two front ends with a core each; PostgreSQL, leader and "
        "load are on the same cores",
        "through one of them",
    ),
    "overload": most(
        5,
        "p99 of what is taken at twice the capacity, in calls of fifty, nothing tried again",
        "p99 at half of it",
    ),
}

MIXING = {
    "mix": most(2.5, "cut, permute, store and release of 10⁶ reports", "copying the same bytes once, likewise"),
    "noise": most(0.05, "the noise of a batch, drawn and sealed (16 categories at (1, 10⁻⁶))", "`mix`"),
    "mix_memory": most(1, "peak memory of the process that mixes 10⁶", "1 GiB"),
    "mix_large_memory": most(1, "the same for 10⁷ (`--large`)", "1 GiB"),
    "mix_waits": most(1, "the longest acknowledgement of another round while 10⁶ reports are mixed", "0.1 s"),
    "mix_waits_large": most(1, "the same with 10⁷ (`--large`)", "0.1 s"),
    "second_hop": least(
        0.87,
        "a hop takes a batch, opens its layer, permutes, stores and passes it on to a party that costs nothing",
        "opens of its layer alone, all cores",
    ),
    "hold_postgres": least(
        0.5,
        "submissions stored durably in PostgreSQL, in calls of 100, 32 at once",
        "as many rows inserted and committed call by call, by the driver alone",
    ),
    "mix_spark": most(6, "permuting 10⁶ envelopes on Spark", "sorting as many keyed rows in the same session"),
    "mix_spark_large": most(6, "the same of 10⁷ (`--large`)", "the same of 10⁷"),
}

COUNTING = {
    "open_krr": least(0.85, "the analyzer opens and counts a delivered batch, through kRR", INNER_OPENS),
    "open_unary": least(0.85, "the same, through unary encoding", INNER_OPENS),
    "open_hashed": least(0.85, "the same, through hashed response", INNER_OPENS),
    "open_spark": least(0.7, "opening and counting a batch on Spark, its session begun", INNER_OPENS),
    "receive_postgres": least(
        0.2,
        "a batch of 10⁵ envelopes received into the analyzer's store in PostgreSQL, each chunk of 5,000 sealed and on "
        "disk before the answer",
        "as much copied (`COPY`) in one transaction by the driver alone",
    ),
    "decode": most(
        2.5,
        "10⁶ candidates looked up in a table of 10⁶ hashed reports, 256 rows",
        "hashing each candidate for each row alone",
    ),
    "round_direct": most(
        1, "the 64th round of a longitudinal question: 10⁶ reports counted, all rounds so far estimated", "1 s"
    ),
    "round_vector": most(1, "the same, by the strategy `vector`", "1 s"),
    "estimate": most(1, "10⁶ reports, from the last open to the published certificate, in a new process", "0.5 s"),
}

WHOLE = {
    "demo_all": least(0.75, "the whole demo, 336,776 enrolled devices", "its seals and opens alone, all cores"),
    "demo_all_open": least(0.8, "the same with `--admission open`", "the same"),
}

ACCOUNTING = {
    "account_memory": most(1, "peak memory of everything below, also at n = 10¹²", "300 MiB"),
    "account_krr_1e6_time": most(1, "ε of one round at n = 10⁶, both ends, for kRR", "50 ms"),
    "account_krr_1e6_slack": most(1, "the relative width of its bracket", "10⁻⁴"),
    "account_krr_1e9_time": most(1, "the same at n = 10⁹", "150 ms"),
    "account_krr_1e9_slack": most(1, "the relative width of its bracket", "10⁻⁴"),
    "account_generic_1e6_time": most(1, "the same for any randomizer, n = 10⁶", "50 ms"),
    "account_generic_1e6_slack": most(1, "the relative width of its bracket", "10⁻⁴"),
    "account_generic_1e9_time": most(1, "the same at n = 10⁹", "150 ms"),
    "account_generic_1e9_slack": most(1, "the relative width of its bracket", "10⁻⁴"),
    "account_finite_1e6_time": most(1, "the same for a law of 64 outputs, in seconds of the processor", "50 ms"),
    "account_finite_1e6_slack": most(1, "the relative width of its bracket", "10⁻⁴"),
    "account_rounds_generic_epsilon": most(1, "ε of 10⁵ rounds, any randomizer", "0.91"),
    "account_rounds_generic_time": most(1, "how long it takes to compute", "5 s"),
    "account_rounds_krr_2_epsilon": most(1, "the same for kRR of two symbols", "0.82"),
    "account_rounds_krr_2_time": most(1, "how long it takes to compute", "5 s"),
    "account_sum_mse": most(1, "the worst squared error of a sum at (0.5, 10⁻⁸), n = 10⁶", "1995"),
    "account_sum_time": most(1, "how long it takes to choose its randomizer", "5 s"),
    "account_longitudinal_time": most(
        1, "every strategy for a boolean over 64 periods, in seconds of the processor", "5 s"
    ),
}

NOISE = {
    "noise_part_k16": most(1.005, "the error by noise alone, of a count of 16 at (1, 10⁻⁶)", "2.8 reports"),
    "noise_part_k16_half": most(1.005, "the same at (½, 10⁻⁸)", "5.64 reports"),
    "noise_part_two_symbols": most(1.005, "the same of two symbols at (1, 10⁻⁶)", "1.36 reports"),
    "noise_count_k16_1e4_cap8_at_0": most(1, "the error of a count of 16 at 0, n = 10⁴, ε_local ≤ 8", "3.4 reports"),
    "noise_count_k16_1e4_cap8_at_quarter": most(1, "the same at n/4", "4.8 reports"),
    "noise_count_k16_1e5_cap10_at_0": most(1, "the same at 0, n = 10⁵, ε_local ≤ 10", "3.5 reports"),
    "noise_count_k16_1e5_cap10_at_quarter": most(1, "the same at n/4", "5.4 reports"),
    "noise_count_k16_1e6_cap12_at_0": most(1, "the same at 0, n = 10⁶, ε_local ≤ 12", "3.8 reports"),
    "noise_count_k16_1e6_cap12_at_quarter": most(1, "the same at n/4", "6.0 reports"),
    "noise_count_k1000_1e5_cap12_at_0": most(1, "the same of 1000 at 0, n = 10⁵, ε_local ≤ 12", "3.0 reports"),
    "noise_count_k1000_1e5_cap12_at_quarter": most(1, "the same at n/4", "12.8 reports"),
    "noise_sum_1e4_cap8": most(1, "the error of a sum in one message, n = 10⁴, ε_local ≤ 8", "6.4 ranges"),
    "noise_sum_1e4_cap12": most(1, "the same, ε_local ≤ 12", "4.7 ranges"),
    "noise_sum_1e6_cap14": most(1, "the same, n = 10⁶, ε_local ≤ 14", "10.9 ranges"),
    "noise_digits": most(1, "the error by noise alone of a sum by 8 digits", "3.03 ranges"),
    "noise_direct": most(1, "the mean error of `direct` over 64 rounds, n = 10⁶", "34.1 reports"),
    "noise_planning_time": most(1, "planning the demo's two questions, in seconds of the processor", "2 s"),
    **{
        f"noise_bracket_{law}_{reports}": most(1, f"ε beside noise {words}, n = {reports:,}, in a new process", "10 ms")
        for law, words in (("one_round", "of one round"), ("many_rounds", "for many rounds"))
        for reports in (1, 1_000, 10_000)
    },
    "noise_rounds_time": most(1, "ε of 10⁴ rounds beside noise, in seconds of the processor", "1 s"),
}

LOG = {
    "log_inclusion": most(
        1,
        "a proof that an entry is in a [log](../howto/keep-a-transparency-log.md) of 10⁶, from its checkpoint and "
        "tiles: the 95th percentile, in time of the processor",
        "1 ms",
    ),
    "log_consistency": most(1, "the same for a proof that the log only grew since a size", "1 ms"),
    "log_check": most(1, "the same for checking the first with the signatures of the log and two witnesses", "1 ms"),
}

SUBJECTS: Mapping[str, Mapping[str, RowGoal]] = {
    "Starting": STARTING,
    "A device": DEVICE,
    "Taking submissions": SUBMITTING,
    "Mixing": MIXING,
    "Opening and counting": COUNTING,
    "The whole demo": WHOLE,
    "Accounting": ACCOUNTING,
    "Noise of the shuffler": NOISE,
    "The transparency log": LOG,
}
"""Every row, by the title of its table."""

GOALS: dict[str, RowGoal] = {name: goal for rows in SUBJECTS.values() for name, goal in rows.items()}
"""Every row by its name."""
