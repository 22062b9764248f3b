"""What each key of a task's draft means, in plain words. The reference is made of this."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from hubbub.accountant.calibration.noise import NOISE_WORTH
from hubbub.accountant.mechanisms.longitudinal import CHANGES_LIMIT
from hubbub.protos.sealing.suites import SUITES
from hubbub.protos.task.about import LONGEST_WORDS
from hubbub.protos.task.admission import Mode
from hubbub.protos.task.draft import LONGEST_REASON, MAXIMUM_EPSILON_LOCAL, MAXIMUM_ROUNDS, USUAL_GRACE
from hubbub.protos.task.task import MAXIMUM_DUMMIES
from hubbub.protos.transparency_log.policy import MOST_WITNESSES
from hubbub.queries.fields import MAXIMUM_LABEL_LENGTH, MAXIMUM_NAME_LENGTH, MAXIMUM_SYMBOLS
from hubbub.queries.longitudinal.strategies import SENDINGS
from hubbub.queries.questions.distribution import MOST_QUANTILES
from hubbub.queries.questions.number import MOST_DIGITS
from hubbub.queries.registry import RANDOMIZERS
from hubbub.queries.texts.prefixes import LONGEST_PREFIX, MOST_PREFIXES


@dataclass(frozen=True)
class DraftKey:
    """A key: the values it takes, what it means, and its default, if it may be left out."""

    values: str
    meaning: str
    default: str = ""


def _words(*values: str) -> str:
    return ", ".join(f'`"{value}"`' for value in values)


_DURATION = "seconds, or a text such as `90s`, `10m`, `24h`, `7d`, `2w`"
_CATEGORIES = DraftKey(
    f"list of texts of 1 to {MAXIMUM_LABEL_LENGTH} printable characters in Unicode's composed form, each once",
    "The names that a person may choose.",
)
_TEXT = f"text of at most {LONGEST_WORDS} printable characters"
_SHARE = "number above 0, at most 1"

TABLES: Mapping[str, Mapping[str, DraftKey]] = MappingProxyType(
    {
        "task": {
            "name": DraftKey(
                "a letter, then up to 62 letters, digits, `-` or `_`", "The task's name. It is part of file names."
            ),
            "start": DraftKey("time with its zone, in whole seconds", "When round 0 opens."),
            "length": DraftKey(f"{_DURATION}; at most ten years", "How long a round is."),
            "grace": DraftKey(
                f"{_DURATION}; at most a year",
                "How long after its end a round still takes what is on its way. Clocks may differ by as much.",
                f"`{USUAL_GRACE}`",
            ),
            "rounds": DraftKey(f"whole number, 1 to {MAXIMUM_ROUNDS:,}", "How many rounds follow each other.", "`1`"),
            "minimum_reports": DraftKey(
                "whole number, 2 to 10¹²", "A round with fewer is erased, and nothing of it is published."
            ),
            "maximum_reports": DraftKey(
                "whole number, `minimum_reports` to 10¹²",
                "The most submissions of a round. More are refused, so that nobody fills the disk.",
                "ten times the minimum, and a million at least",
            ),
            "close": DraftKey(
                _words("schedule", "operator"),
                "`schedule`: rounds end by the clock. `operator`: `hubbub close` may end them earlier.",
                '`"schedule"`',
            ),
            "suite": DraftKey(
                _words(*SUITES),
                "The cryptography of the envelopes. `MLKEM768-X25519` is post-quantum, and larger.",
                f'`"{next(iter(SUITES))}"`',
            ),
        },
        "about": {
            "purpose": DraftKey(_TEXT, "Why people are asked, and what is done with the results.", "none"),
            "owner": DraftKey(_TEXT, "Who answers for the task, and how to reach them.", "none"),
            "results": DraftKey(_TEXT, "Where results and certificates are published.", "none"),
            "questions": DraftKey(
                "a table `[about.questions]`: by the name of a query, " + _TEXT, "What each query asks.", "none"
            ),
        },
        "admission": {
            "mode": DraftKey(
                _words(*(mode.value for mode in Mode)),
                "Who may submit. `enrolled`: devices with a ticket (`hubbub enroll`). `mtls`: devices that show a TLS "
                "certificate. `open`: anyone who reaches the shuffler.",
                '`"enrolled"`, if the table `[admission]` is left out',
            ),
            "second_authority": DraftKey(
                "fingerprint of a public key, as `hubbub identity` prints it",
                "A key that must sign each ticket too. It is for `enrolled` alone.",
                "none",
            ),
        },
        "log": {
            "key": DraftKey(
                "a log's key, as `hubbub log init` prints it",
                "The transparency log in which the task must be, and each of its certificates. Devices take part only "
                "with a proof of it.",
            ),
            "witnesses": DraftKey(
                f"list of 1 to {MOST_WITNESSES} keys of witnesses, as `hubbub log witness` prints them",
                "The parties that sign the log's checkpoints if it only grew. Names and keys are all different.",
            ),
            "threshold": DraftKey(
                "whole number, above half the number of witnesses, at most all",
                "How many of the witnesses must have signed. More than half: so any two views that are taken have "
                "witnesses in common, and an honest one signs one view only.",
                "all of them",
            ),
        },
        "privacy": {
            "epsilon": DraftKey(
                "number above 0, at most 100",
                "ε: what a person is promised at the minimum, together with δ, for everything sent in a round. If a "
                "query states an `error`, it is the most that planning may take.",
            ),
            "delta": DraftKey(
                "number from 10⁻¹⁵, below 1",
                "δ: with this probability a person is not promised `epsilon`. It is at most 0.1 / `minimum_reports`, "
                "unless `large_delta` is given.",
            ),
            "epsilon_local": DraftKey(
                f"number above 0, at most {MAXIMUM_EPSILON_LOCAL}",
                "Cap on the sum of ε_local over the queries: what is left if all services collude. One above 20 leaves "
                "next to nothing then; only a sum by `digits` needs it.",
                "`8.0`",
            ),
            "honest_share": DraftKey(
                _SHARE,
                "Share of the reports that is assumed to be honest. Below 1, an attacker may make the others up. A "
                'task with `mode = "open"` must have it.',
                "`1.0`",
            ),
            "epsilon_total": DraftKey(
                "number above 0, at most 10⁶",
                "Cap on ε at the same δ over all rounds, at the minimum. Rounds beyond it are erased.",
                "no cap",
            ),
            "dummies": DraftKey(
                f"whole number, 0 to {MAXIMUM_DUMMIES:,}",
                "Uniform reports that the shuffler adds to each query's batch. Each device then needs less noise.",
                "`0`",
            ),
            "noise": DraftKey(
                '`"none"`, `"auto"` or `"always"`',
                "Whether each shuffler adds noise: a random number of reports of each symbol. Noise hides each person "
                "even if everybody else lies. `auto`: each query that can have noise has it, if no query's expected "
                f"standard error is then more than {100 * (NOISE_WORTH - 1):.0f} % above that without noise, and if "
                "as many rounds fit `epsilon_total`; if need be, by a law for all rounds. `always`: its law is chosen "
                "so that all rounds fit `epsilon_total`.",
                '`"none"`',
            ),
            "large_delta": DraftKey(
                f"text of at most {LONGEST_REASON} printable characters",
                "Why δ must be above 0.1 / `minimum_reports`. Everybody is shown these words.",
                "none",
            ),
        },
    }
)
"""The keys of a draft's tables, without its queries."""

SHARED: Mapping[str, DraftKey] = MappingProxyType(
    {
        "name": DraftKey(
            f"1 to {MAXIMUM_NAME_LENGTH} printable characters without `=`, in Unicode's composed form",
            "The query's name. Each has its own.",
        ),
        "kind": DraftKey("the title of a section below", "What is asked."),
        "optional": DraftKey(
            "true or false", "Whether a device may have no answer. That, too, is sent privately.", "`false`"
        ),
        "weight": DraftKey(
            "number from 10⁻⁶ to 10⁶", "Share of the privacy budget, relative to the other queries.", "`1.0`"
        ),
        "randomizer": DraftKey(
            _words(*RANDOMIZERS, "auto"),
            "How answers are randomized. `auto`: `hubbub plan` takes the one of the least error.",
            '`"krr"`; of a `text` `"hashed"`',
        ),
        "error": DraftKey(
            "number above 0",
            "The standard error that the query must reach at the minimum, in the unit of its estimate. `hubbub plan` "
            "then solves for ε: it takes the least one, up to `epsilon`, that reaches each stated error. The signed "
            "task has that ε, and not the error. A `longitudinal` query has none.",
            "none",
        ),
    }
)
"""The keys that every query has. One that is `longitudinal` has no `optional`, no `randomizer` and no `error`."""

_LOWER = DraftKey("number from -10³⁰⁰ to 10³⁰⁰, below `upper`", "The least value. Smaller answers are clipped to it.")
_UPPER = DraftKey("number from -10³⁰⁰ to 10³⁰⁰", "The largest value. Larger answers are clipped to it.")
_UNIT = DraftKey(
    f"text of at most {MAXIMUM_LABEL_LENGTH} characters", "The unit of the number, which results show.", "none"
)

KINDS: Mapping[str, Mapping[str, DraftKey]] = MappingProxyType(
    {
        "histogram": {
            "categories": _CATEGORIES,
            "share": DraftKey(
                _SHARE,
                "Planning makes least the largest error of a category that up to this share of people have.",
                "`1.0`; with `hashed` or `auto` of k categories 1/k, and 0.01 at least",
            ),
        },
        "sum": {
            "lower": _LOWER,
            "upper": _UPPER,
            "unit": _UNIT,
            "digits": DraftKey(
                f"whole number, 1 to {MOST_DIGITS}",
                "Ask by so many binary digits, each a query of its own beside noise of the shuffler. It needs `noise` "
                "and a large `epsilon_local`, which `hubbub plan` names, and takes no `optional`.",
                "none: one message",
            ),
        },
        "distribution": {
            "edges": DraftKey(
                f"3 to {MAXIMUM_SYMBOLS - 1:,} rising numbers",
                "The ends of the buckets: above the first up to the second, and so on. Answers outside are clipped.",
            ),
            "quantiles": DraftKey(
                f"at most {MOST_QUANTILES} rising probabilities above 0 and below 1",
                "The quantiles that are estimated.",
                "the quartiles",
            ),
            "unit": _UNIT,
        },
        "grouped": {
            "by": DraftKey(
                "list of one or two tables with `name` and `categories`", "The attributes by which people are grouped."
            ),
            "of": DraftKey(
                "table with a `kind` and its keys",
                "The question that is asked of each group, without a name of its own.",
            ),
        },
        "variance": {"lower": _LOWER, "upper": _UPPER, "unit": _UNIT},
        "top": {
            "categories": _CATEGORIES,
            "false_discovery_rate": DraftKey(
                "number above 0, at most 0.5",
                "The largest share, on average, of those found that nobody has.",
                "`0.05`",
            ),
        },
        "text": {
            "share": DraftKey(
                _SHARE,
                "Planning makes least the largest error of a text that up to this share of people have.",
                "`0.01`",
            ),
            "prefixes": DraftKey(
                f"1 to {MOST_PREFIXES} rising lengths in bytes, up to {LONGEST_PREFIX:,}",
                "Lengths of the beginnings that the first rounds ask for; later rounds ask for the whole text. "
                "Frequent texts are then found without candidates (`hubbub results --prefixes`).",
                "none",
            ),
        },
        "longitudinal": {
            "changes": DraftKey(
                f"whole number, from 1 to the task's rounds, at most {CHANGES_LIMIT}",
                "The most changes of one device over all rounds. Later changes are not sent.",
            ),
            "strategy": DraftKey(
                _words("auto", *SENDINGS),
                "How the state is sent over time. `auto`: `hubbub plan` takes the most precise.",
                '`"auto"`',
            ),
            "steady_share": DraftKey(
                _SHARE,
                "Share of the minimum's honest people who answer every round, as you know it of your fleet. "
                "`vector` and `sampled` are certified by these people, and need it.",
                "none",
            ),
            "epsilon_local": DraftKey(
                "number above 0, at most 10⁶",
                "Cap on ε_local over all rounds together.",
                "the one in `[privacy]`",
            ),
        },
    }
)
"""The keys that each kind of query adds."""
