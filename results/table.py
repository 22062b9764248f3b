"""A table of published rows, for people and for pandas, polars and pyarrow."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, overload

from hubbub.accountant.errors import listed, needs_extra, shown
from hubbub.protos.errors import UsageError
from hubbub.protos.escaping import readable
from hubbub.protos.records.results import RoundResults
from hubbub.results.checked import Trust
from hubbub.results.differences import Difference, differences, matched
from hubbub.results.intervals import band
from hubbub.results.published_row import PublishedRow, rows_of
from hubbub.results.selection import chosen_rows, is_number, only_row

if TYPE_CHECKING:
    import pyarrow as pa

    from hubbub.results.pandas_frame import DataFrame
    from hubbub.results.plots import Axes

SHOWN = 50
"""Rows that a notebook shows; `to_pandas()` has all."""


class ResultsTable(Sequence[PublishedRow]):
    """Published rows of one task's rounds, in the order of rounds; it cannot be changed.

    Attributes:
        rows: the rows.
        trust: what was checked of them.
    """

    def __init__(
        self, rounds: Sequence[RoundResults], trust: Trust, rows: Sequence[PublishedRow] | None = None
    ) -> None:
        """Make the table of these rounds; of some of their `rows` alone, if given."""
        self._rounds = tuple(rounds)
        self.trust = trust
        self.rows = tuple(row for each in rounds for row in rows_of(each)) if rows is None else tuple(rows)

    @overload
    def __getitem__(self, place: int) -> PublishedRow: ...
    @overload
    def __getitem__(self, place: slice) -> ResultsTable: ...
    def __getitem__(self, place: int | slice) -> PublishedRow | ResultsTable:
        if not isinstance(place, slice) and not hasattr(place, "__index__"):
            raise TypeError(
                f"a table has rows by place, not by {place!r}; table.where(…) chooses rows, and table.to_pandas() has "
                "columns"
            )
        return self._of(self.rows[place]) if isinstance(place, slice) else self.rows[place]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[PublishedRow]:
        return iter(self.rows)

    def __repr__(self) -> str:
        rows = "1 row" if len(self) == 1 else f"{len(self)} rows"
        rounds = "1 round" if len(self.rounds) == 1 else f"{len(self.rounds)} rounds"
        return f"<{rows} of {rounds}. {self._checked}>"

    @property
    def _checked(self) -> str:
        """What was checked of these rows, in sentences."""
        return self.trust.words if self.rows else "Nothing was verified: the table has no rows."

    def _of(self, rows: Sequence[PublishedRow]) -> ResultsTable:
        return ResultsTable(self._rounds, self.trust, rows)

    @classmethod
    def joined(cls, tables: Iterable[ResultsTable]) -> ResultsTable:
        """Return the rows of several tables of one task as one table, which is verified as far as each of them is.

        Raises:
            UsageError: if there is no table, or tables have a round in common or are of several tasks.
        """
        if not isinstance(tables, Iterable):
            raise UsageError(f"joined takes tables in a list, not {shown(tables)}")
        tables = list(tables)
        if odd := [each for each in tables if not isinstance(each, ResultsTable)]:
            raise UsageError(f"joined takes tables, as `read` returns them, not {shown(odd[0])}")
        rounds = [each for table in tables for each in table.results]
        ids = {(each.id.task_id, each.id.round) for each in rounds}
        if not tables or len(ids) < len(rounds) or len({task for task, _ in ids}) > 1:
            raise UsageError("tables are joined if they are of different rounds of one task; leave the others out")
        return cls(rounds, Trust.joined([each.trust for each in tables]), [row for table in tables for row in table])

    @property
    def results(self) -> tuple[RoundResults, ...]:
        """The results that the rows are of, with their certificates, as `hubbub.deploy.operator.export` writes them."""
        return self._rounds

    @property
    def rounds(self) -> tuple[int, ...]:
        """The numbers of the rounds that the rows are of, rising."""
        return tuple(sorted({row.round for row in self.rows}))

    @property
    def queries(self) -> tuple[str, ...]:
        """The names of the queries that the rows are of, in their order."""
        return tuple(dict.fromkeys(row.query for row in self.rows))

    def where(self, **wanted: object) -> ResultsTable:
        """Return the rows whose attributes are these: `where(query="carrier", category=["AA", "UA"], round=3)`.

        A list, a set or a range names several values, one of which a row has. The table is empty if no row has them.

        Raises:
            UsageError: if rows have no such attribute, or it is of another type than the value, such as a time without
                its zone.
        """
        return self._of(chosen_rows(self.rows, wanted))

    def one(self, **wanted: object) -> PublishedRow:
        """Return the only row whose attributes are these.

        Raises:
            UsageError: if there is none, or several; the message says what rows have, or what tells them apart.
        """
        return only_row(self.rows, wanted)

    def certificate(self, round_number: int) -> bytes:
        """Return a round's certificate, as `hubbub verify` reads it.

        Raises:
            UsageError: if the table has no such round.
        """
        for each in self._rounds:
            if is_number(round_number) and each.id.round == round_number:
                return each.certificate
        there = listed(each.id.round for each in self._rounds)
        raise UsageError(f"the table has no round {shown(round_number)}; it has {there}")

    def compare(self, a: PublishedRow, b: PublishedRow) -> Difference:
        """Return a − b with the error of the difference.

        Raises:
            UsageError: if a row has no number, is compared with itself, or is not of this table's rounds; or if the two
                have different units.
        """
        for each in (a, b):
            if not isinstance(each, PublishedRow):
                raise UsageError(
                    f"compare takes two rows, such as table.one(…), not {type(each).__name__}; compare_all takes tables"
                )
        (found,) = self._differences([(a, b)])
        return found

    def compare_all(self, a: Sequence[PublishedRow], b: Sequence[PublishedRow]) -> tuple[Difference, ...]:
        """Return a − b of all that two tables have in common, such as `table.where(round=0)` and another round.

        Rows are matched by query, statistic, category, group and place; those without a number are left out. The
        simultaneous intervals of all these differences hold at once with a probability of 95 %.

        Raises:
            UsageError: if the tables have nothing in common, or something twice; and as `compare`.
        """
        return self._differences(matched(a, b))

    def _differences(self, pairs: Sequence[tuple[PublishedRow, PublishedRow]]) -> tuple[Difference, ...]:
        held = {(each.id.task_id.hex(), each.id.round): each for each in self._rounds}
        for row in (row for pair in pairs for row in pair):
            if (row.task_id, row.round) not in held:
                what = f"round {row.round} of task {row.task}"
                raise UsageError(f"{what} is not in this table; read both rounds together")
        return differences(held, pairs)

    def band(self) -> list[tuple[float, float]]:
        """Return an interval for each row that has a number; with a probability of 95 %, all of them hold at once.

        The intervals in the rows themselves hold at once in one query of one round only.
        """
        return band(self._numbered())

    def consistent_counts(self, query: str, round_number: int) -> dict[str, float]:
        """Return a histogram's counts as numbers of people that are not negative and add up to the reports: BIASED.

        They are the nearest such counts to the unbiased ones. So small counts are too large on average, and sums, means
        or comparisons of them are wrong by more than their errors; for these use `estimate`. If an answer is optional,
        they add up to at most the reports: the rest gave none.

        Raises:
            UsageError: if the table has no such counts.
        """
        if not is_number(round_number) or not isinstance(query, str):
            # Counts of several rounds would be those of the last.
            raise UsageError(
                f"consistent_counts takes a query's name and the number of one round, not {shown(query)} and "
                f"{shown(round_number)}"
            )
        rows = [
            row for row in self.where(query=query, round=round_number) if row.consistent is not None and not row.group
        ]
        if not rows:
            about = f"the table has no counts of {shown(query)} in round {shown(round_number)}"
            raise UsageError(f"{about}; choose a histogram of it: {self._counted()}")
        return {row.category or "": row.consistent or 0.0 for row in rows}

    def _counted(self) -> str:
        held = [row for row in self.rows if row.consistent is not None and not row.group]
        return listed(
            f"{each} in round {number}" for each, number in dict.fromkeys((row.query, row.round) for row in held)
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the rows of one query: of one round as bars of errors, of several as series over time with bands.

        Bars of errors are the 95 % intervals. Bands hold for all that is drawn at once (`band`). A round in which the
        query is withheld is a gap.

        Raises:
            UsageError: if there is nothing to draw, or it has several units or queries, or too many series, or `ax` is
                not one of flat axes.
            ModuleNotFoundError: if matplotlib is not installed; the message names the extra.
        """
        from hubbub.results.plots import draw

        return draw(self.rows, ax)

    def _numbered(self) -> list[PublishedRow]:
        return [row for row in self.rows if row.estimate is not None and row.lower is not None]

    def to_arrow(self) -> pa.Table:
        """Return an Arrow table with a column for each attribute of `PublishedRow`; polars reads it too.

        Times have microseconds and the zone UTC. A group is text: "region=north, age=young".

        Raises:
            ModuleNotFoundError: if pyarrow is not installed; the message names the extra.
        """
        try:
            from hubbub.results.arrow_table import arrow_of
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(needs_extra("to_arrow", str(error.name), "results"), name=error.name) from error
        return arrow_of(self.rows)

    def to_pandas(self) -> DataFrame:
        """Return a data frame with a column for each attribute of `PublishedRow`.

        Raises:
            ModuleNotFoundError: if pandas or pyarrow is not installed; the message names the extra.
        """
        from hubbub.results.pandas_frame import frame_of

        return frame_of(self.to_arrow())

    def _repr_html_(self) -> str:
        """Return the rows as a notebook shows them, the first `SHOWN` of many, below what was checked."""
        heads = "".join(f"<th>{html.escape(each)}</th>" for each in _HEADS)
        body = "".join(f"<tr>{''.join(map(_cell, _shown(row)))}</tr>" for row in self.rows[:SHOWN])
        left = len(self) - SHOWN
        more = f"<p>{left} further row{'s' * (left > 1)}</p>" if left > 0 else ""
        trust = f"<p>{html.escape(self._checked)}</p>"
        return f"{trust}<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>{more}"


_HEADS = ("round", "begins (UTC)", "query", "", "estimate", "standard error", "95 % interval", "unit")


def _shown(row: PublishedRow) -> tuple[str, ...]:
    begun = _time(row.round_begins)
    if row.withheld:
        return (str(row.round), begun, row.query, "withheld", row.reason, "", "", "")
    error = "" if row.standard_error is None else f"{row.standard_error:,.4g}"
    interval = "" if row.lower is None or row.upper is None else f"{row.lower:,.6g} … {row.upper:,.6g}"
    estimate = "" if row.estimate is None else f"{row.estimate:,.6g}"
    return (str(row.round), begun, row.query, row.label, estimate, error, interval, row.unit)


def _time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M}"


def _cell(text: str) -> str:
    return f"<td>{html.escape(readable(text))}</td>"
