"""What each member of a certificate means, in plain words. The reference is made of this; `members` has their kinds."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

BODY: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "admission": ("object", "`mode` and `words`: who was let in, and what made-up reports mean for privacy."),
        "all_rounds": ("object", "The privacy of everything that one person sent in all rounds so far."),
        "batches": (
            "list",
            "The signed batch record of each query, in the task's order; if there are hops, the last's.",
        ),
        "counts_digest": ("hex", "SHA-256 of the counts, so that results can be checked against the certificate."),
        "delta": ("number", "δ, the same for every ε of the certificate: the task's."),
        "format": ("text", "The format's name."),
        "honest_share": ("number", "The share of the reports that the task assumes to be honest."),
        "horizon": (
            "object",
            "What all rounds of the task cost, those to come included; only if a query is longitudinal.",
        ),
        "ladder": ("object", "For each member with an ε: who must be honest for it, in one sentence."),
        "queries": ("list", "The privacy of each query's batch, in the task's order."),
        "releases": ("list", "The releases of the task before this round, in their order."),
        "round": ("count", "The round's number, from 0."),
        "round_total": ("object", "The privacy of everything that one person sent in this round."),
        "successions": ("list", "The signed successions that follow the task's identities; mostly none."),
        "task": ("object", "The signed task."),
        "uncounted": ("list", "The rounds of `releases` that were never counted, as the analyzer claims."),
    }
)
"""The members of a certificate's body: kind and meaning."""

NUMBERS: Mapping[str, str] = MappingProxyType(
    {
        "bound": "The bound that gives `epsilon_upper`; it is `noise` if noise of one shuffler hides a person. The "
        "catalog of bounds has its theorem.",
        "budget": "The task's `epsilon_total`; null if it has none.",
        "dummies": "Reports of shufflers in the batch: uniform ones, or the sum of the noise of all.",
        "epsilon_local": "ε if only this person's device is honest: that of the randomizers alone.",
        "epsilon_lower": "ε that a known attack reaches if everyone is honest, so no smaller `epsilon_upper` could be "
        "proven; null if no attack is known.",
        "epsilon_lower_alone": "The same for `epsilon_upper_alone`; null too if nothing but the device's own reports "
        "hides the person, whose ε is `epsilon_local`.",
        "epsilon_lower_at_minimum": "The same for `epsilon_upper_at_minimum`.",
        "epsilon_lower_if_minimum_valid": "The same for `epsilon_upper_if_minimum_valid`.",
        "epsilon_upper": "ε, proven, if everyone is honest. In `horizon` it is null if a batch so far "
        "had fewer valid honest reports than the minimum gives.",
        "epsilon_upper_at_minimum": "ε of the rounds so far as the ledgers charge them, at the minimum; null if a "
        "batch had fewer valid honest reports than the minimum gives.",
        "epsilon_upper_alone": "ε if only this person and one shuffler are honest, and everybody else lies. The member "
        "`ladder` says which shuffler.",
        "epsilon_upper_if_minimum_valid": "ε if the analyzer miscounts, but at least the task's minimum is valid in "
        "each batch; null if fewer are stated of one.",
        "history": "The counts of every round so far, this one last.",
        "honest_reports": "Valid reports that are assumed to be honest, by the honest share.",
        "left_out": "Reports that were not counted, by reason.",
        "mechanism": "The law of the query's randomizer; its own members are below.",
        "name": "The query's name.",
        "queries": "For each query `reports`, `valid` and `honest_reports`.",
        "reports": "Reports of devices that were delivered, without dummies.",
        "round": "The round's number.",
        "rounds": "How many rounds the task has.",
        "state": "`published`, or `withheld` if too few valid reports were left.",
        "valid": "Reports that were counted.",
    }
)
"""The members of the objects with numbers; a name means the same in each."""

MECHANISMS: Mapping[str, str] = MappingProxyType(
    {
        "blanket": "A law below that of every input; null for the smallest probability of each output.",
        "categories": "How many answers there are.",
        "cells": "g: how many values the hash of an answer has.",
        "changes": "The most changes of one person over all rounds.",
        "dummy": "The law of a dummy report; null if dummies are not known.",
        "epsilon_local_hex": "Local ε, for all rounds if the query is longitudinal, as C writes hexadecimal numbers.",
        "epsilon_round_hex": "Local ε of one round, as C writes hexadecimal numbers.",
        "gamma": "γ, [w, 2³²]: the chance that a report is drawn without regard to the answer.",
        "law": "A row for each input: the probability of each output, as a fraction.",
        "neighbors": "Pairs of inputs of which nobody must learn which one a person has; null for all pairs.",
        "noise": "The law of how many dummies of each symbol each shuffler adds: its family, parameter and reach.",
        "other": "[w, 2³²]: the chance that the bit of another answer is 1.",
        "periods": "The task's rounds.",
        "randomizer": "The devices' randomizer beside noise of the shuffler: the members of its mechanism.",
        "rows": "R: how many hash functions there are.",
        "side": "b, [w, 2³²]: the share of each value but 0 among the values that are sent by chance.",
        "steady": "How many honest people of each level answer every round, as the task states it.",
        "truthful": "[w, 2³²]: the chance that the bit of one's own answer is 1.",
    }
)
"""The members that a query has because of its mechanism."""
