"""Says in sentences what a demo's document has: how long it took, what noise costs, what a looser cap would bring."""

from __future__ import annotations

from typing import Any

from hubbub.queries.estimation.significant_digits import significant


def explained(document: dict[str, Any]) -> tuple[str, str, str]:
    """Return where its numbers are explained, how long each stage took, and how reports were sealed."""
    seconds = ", ".join(f"{name.replace('_', ' ')} {value:.1f} s" for name, value in document["seconds"].items())
    sealed = f"sealed with {document['suite']}, {document['submission_bytes']:,} bytes a submission"
    read = "docs/explanation/shuffle-model.md explains these numbers, and docs/explanation/bounds.md the bounds"
    return read, f"{document['devices']} devices; {seconds}", sealed


def cluster_words(cluster: dict[str, Any]) -> str:
    """Return what the cluster went through."""
    spark = f"on Spark ({cluster['spark']})" if cluster["spark"] else f"without Spark: {cluster['spark_missing']}"
    went = "stores in PostgreSQL; two front ends answered devices; the leader was killed, and the standby took over"
    return f"{went}; mixed and opened {spark}"


def noise_words(document: dict[str, Any]) -> str:
    """Return what noise of the shuffler does to the errors; the ladder says what it promises."""
    shown = {query["name"]: query for query in document["rounds"][0]["queries"]}
    errors = [_error_words(shown[name], **errors) for name, errors in document["noise"].items()]
    # Of other kinds the worst case is another one, such as a text that as many people have as its share allows.
    everybody = all(shown[name]["kind"] in _WORST_IF_ALL_AGREE for name in document["noise"])
    case = "At worst, if everybody had one answer," if everybody else "At worst,"
    return f"{case} the standard error of {', that of '.join(errors)}."


_WORST_IF_ALL_AGREE = frozenset({"histogram", "sum", "grouped"})
"""Kinds of questions whose error is largest if all people have one answer."""


def _error_words(query: dict[str, Any], expected_standard_error: float, expected_without_noise: float) -> str:
    """Return what a query's largest standard error is of, how large it is, and what noise has to do with it."""
    change = 100 * (expected_standard_error / expected_without_noise - 1)
    words = f"{change:.1f} % more" if change > 0 else f"{-change:.0f} % less"
    noise = f"{words} than without noise of the shuffler"
    return f"{_estimated(query)} would be {_in_units(query, expected_standard_error)} ({noise})"


def _estimated(query: dict[str, Any]) -> str:
    """Return the estimate whose error is told: a sum if the query has a unit or is one, else a count."""
    what = "the sum" if query["kind"] == "sum" else "a sum" if query.get("unit") else "a count"
    return f"{what} of {query['name']}{' in one group' * (query['kind'] == 'grouped')}"


def _in_units(query: dict[str, Any], error: float) -> str:
    (number,) = significant((error,), error / 10)
    return f"{number} {query['unit']}" if query.get("unit") else number


def looser_cap_words(
    queries: list[dict[str, Any]], epsilon_local: float, expected_standard_errors: dict[str, float]
) -> str:
    """Return what a larger cap on ε_local would bring, and what is given up for it."""
    shown = {query["name"]: query for query in queries}
    errors = [_in_units(shown[name], error) for name, error in expected_standard_errors.items()]
    which = "this standard error" if len(errors) == 1 else "these standard errors"
    return (
        f"With --local-epsilon {epsilon_local:g} {which} would be {' and '.join(errors)}. Then ε ≤ {epsilon_local:g} "
        "is all that a person keeps if everybody else works together."
    )
