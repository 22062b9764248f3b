"""The protocol of a question. Everything that depends on a question's kind is a method of its class.

To add a kind, write a module with a frozen dataclass that has these members, and add its line to `registry`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, runtime_checkable

from hubbub.queries.estimation.estimates import Estimates, Truth
from hubbub.queries.fields import Fields
from hubbub.queries.randomizers.sampling import Random

if TYPE_CHECKING:
    # A device loads no numpy; only counting and planning need it.
    from hubbub.queries.estimation.debiased import Debiased
    from hubbub.queries.randomizers.randomizer import Vector

Scalar = str | int | float | None
"""One part of an answer: a category's name, a number in the query's unit, or None for no answer."""

Value = Scalar | Mapping[str, Scalar]
"""An answer; one of several parts is a mapping from the parts' names."""


class Question(Protocol):
    """A question is encoded into symbols 0 … answers - 1; an optional one has a further symbol for "no answer"."""

    kind: ClassVar[str]
    """The word for it in drafts, tasks and results."""

    column: ClassVar[type]
    """The type of the answers in a table's column: `str` or `float`."""

    @property
    def name(self) -> str:
        """The query's name."""

    @property
    def optional(self) -> bool:
        """Whether a device may give no answer."""

    @property
    def weight(self) -> float:
        """Its share of the round's privacy, relative to the other queries."""

    @property
    def randomizer(self) -> str:
        """The kind of randomizer that it is asked through."""

    @property
    def answers(self) -> int:
        """How many symbols encode an answer; "no answer" is not among them."""

    @property
    def parts(self) -> tuple[Question, ...]:
        """The questions that one answer answers, each with its own column; most kinds have only themselves.

        If there are several, an answer is a mapping from their names. It needs an answer to each that is not optional.
        """

    # Reading and writing

    @classmethod
    def read(cls, fields: Fields) -> Self:
        """Read a draft's table or a frozen task's; `check` checks the values.

        Raises:
            FieldError: if a key is missing, unknown or of another type.
        """

    def check(self, table: str) -> None:
        """Return only if every value is within its limits.

        Raises:
            FieldError: if one is not; it names the first, in the table of that name.
        """

    def content(self) -> dict[str, Any]:
        """Return the question as the members of a task's JSON."""

    # On the device

    def parse(self, text: str) -> Value:
        """Return the answer that a person typed.

        Raises:
            AnswerError: if the text is not an answer to this question.
        """

    def encode(self, answer: Value, random: Random) -> int:
        """Return the symbol in range(answers) that encodes an answer, which is not None.

        Raises:
            AnswerError: if it does not fit; the message never repeats it.
        """

    def distinct_answers(self) -> tuple[Value, ...]:
        """Return up to three answers with different symbols; an audit's people give these answers.

        None of them is "no answer". A number between two symbols is encoded into either of them, by a random draw.
        """

    # Planning

    @property
    def sizes(self) -> range:
        """The numbers of answers that the encoding may have; planning chooses from them."""

    def sized(self, answers: int) -> Self:
        """Return the question encoded into that many answers."""

    @property
    def planned_for(self) -> str:
        """The name of the statistic that is planned for, such as "one count"."""

    @property
    def extent(self) -> float:
        """The width of what one report can add to the statistic that is planned for, in its unit."""

    def headline(self) -> Vector:
        """Return the weights, shape (symbols,), of the statistic that is planned for, scaled to an extent of 1."""

    def worst(self, variances: Vector) -> float:
        """Return the largest variance of one report's part of the headline over all answers, its encoding's included.

        `variances`, shape (symbols,), are those of the report for each symbol that may be encoded.
        """

    # Results

    def estimates(self, debiased: Debiased) -> Estimates:
        """Return the published estimates, from the debiased counts of the symbols."""

    def truth(self, answers: Iterable[Value]) -> Truth:
        """Return the true values by `Row.key`, from the answers themselves; None means "no answer"."""


@runtime_checkable
class Shared(Protocol):
    """A question of counts that is planned for counts up to a share of the people."""

    def for_share(self, share: float) -> Question:
        """Return the question planned for answers that at most this share of the people give."""


def symbols_of(question: Question) -> int:
    """Return how many symbols a question is encoded into: its answers, and one for "no answer" if it is optional."""
    return question.answers + (1 if question.optional else 0)


SHOWN_NAMES = 10
"""How many categories or queries an error lists."""


def listed(names: tuple[str, ...] | list[str]) -> str:
    """Return names as an error lists them: the first few, quoted, because a name may contain a comma."""
    shown = ", ".join(map(repr, names[:SHOWN_NAMES]))
    return f"{shown} … ({len(names)} in all)" if len(names) > SHOWN_NAMES else shown
