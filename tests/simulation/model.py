"""What is to be expected of the pipeline, from what was sent and what the clocks said.

It shares no code with the services: it knows who sent which symbols, decides by itself how each submission may be
answered, and computes counts and estimates of a round by the definition of randomized response.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from hubbub.protos.messages import Answer, Envelopes, Receipt, RoundState, Submission
from hubbub.protos.sealing.envelope import Destination
from hubbub.protos.task.admission import Mode
from hubbub.protos.task.task import Task
from hubbub.shuffler.records import Round

CARRIERS = ("AA", "B6", "UA")
LOWER, UPPER, LEVELS = -30, 180, 7
NO_ANSWER = LEVELS + 1
SYMBOLS = (3, 9)
HALF = Fraction(1, 2)
"""γ of both queries."""

OUTER_BYTES = 2 * 52 + 48
"""Two inner envelopes of 52 bytes, and what the outer layer adds."""

FINAL = (RoundState.ERASED, RoundState.EXPIRED)
RECEIPT = "receipt"
RETRIED = "retried"

Content = tuple[tuple[bytes, int | None], ...]
"""What a submission carries, by query: what tells inner envelopes apart, and the symbol (None: unopenable)."""


def told(answers: Mapping[str, object], draws: Iterator[int]) -> tuple[int, int]:
    """The symbols a device reports for its answers, given its draws from range(2³²), by the definition of its law."""
    carrier = CARRIERS.index(str(answers["carrier"]))
    delay = _rounded(answers["delay"], draws)
    return _response(carrier, SYMBOLS[0], draws), _response(delay, SYMBOLS[1], draws)


def _rounded(delay: object, draws: Iterator[int]) -> int:
    """Randomized rounding to one of LEVELS + 1 steps: up where a uniform real is below the fractional part."""
    if delay is None:
        return NO_ANSWER
    scaled = Fraction(str(delay)) - LOWER
    scaled *= Fraction(LEVELS, UPPER - LOWER)
    if scaled <= 0 or scaled >= LEVELS:
        return 0 if scaled <= 0 else LEVELS
    below = scaled.numerator // scaled.denominator
    return below + _is_below(scaled - below, draws)


def _is_below(limit: Fraction, draws: Iterator[int]) -> bool:
    """Whether a uniform real is below `limit`, from as many of its digits to base 2³² as it takes."""
    known, width = Fraction(0), Fraction(1)
    for digit in draws:
        width /= 2**32
        known += digit * width
        if known >= limit:
            return False
        if known + width <= limit:
            return True
    raise AssertionError("the device drew fewer digits than its law needs")


def _response(symbol: int, symbols: int, draws: Iterator[int]) -> int:
    if next(draws) >= 2**31:
        return symbol
    return next(draw for draw in draws if draw < 2**32 // symbols * symbols) % symbols


@dataclass
class Arrival:
    """Submissions that came to the shuffler's port, and how each may be answered."""

    destination: Destination
    submissions: Sequence[Submission]
    allowed: list[set[str]]


@dataclass(frozen=True)
class Said:
    """What the shuffler answered to whom, and when."""

    moment: float
    submission: Submission
    answer: Answer


@dataclass
class Expected:
    """What a round must come to: reports, and by query what is counted by symbol and left out by reason."""

    reports: int
    counts: list[list[int]]
    left_out: list[dict[str, int]]


@dataclass
class Model:
    """Everything that was sent, and everything that was answered.

    `held` are the envelopes that got a receipt, by round and id; `maybe` those that may have been taken although no
    answer came, because the shuffler was killed or the caller gave up.
    """

    task: Task
    clock: Callable[[], float]
    observe: Callable[[int], Round | None]
    is_full: Callable[[], bool]
    queue: int
    by_envelope: dict[bytes, Content | None] = field(default_factory=dict)
    by_id: dict[bytes, tuple[str, Content]] = field(default_factory=dict)
    held: dict[int, dict[bytes, bytes]] = field(default_factory=dict)
    maybe: dict[int, dict[bytes, set[bytes]]] = field(default_factory=dict)
    answers: Counter[str] = field(default_factory=Counter)
    unanswered: int = 0
    at_risk: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    delivered: dict[int, set[bytes]] = field(default_factory=dict)
    acknowledged: dict[tuple[str, int], bytes] = field(default_factory=dict)
    kept: dict[tuple[str, int], bytes] = field(default_factory=dict)
    first_bytes: dict[bytes, bytes] = field(default_factory=dict)
    sent: dict[tuple[str, int], bytes] = field(default_factory=dict)
    open: list[Arrival] = field(default_factory=list)
    said: list[Said] = field(default_factory=list)

    # What was sent

    def sealed(self, device: str, submission_id: bytes, symbols: Sequence[int]) -> None:
        """Note what an honest device is about to seal under an id."""
        content = tuple((submission_id + bytes([query]), symbol) for query, symbol in enumerate(symbols))
        self.by_id[submission_id] = device, content

    def arrives(self, destination: Destination, submissions: Sequence[Submission]) -> Arrival:
        """Note what came to the shuffler."""
        for submission in submissions:
            self._check_sent_once(destination, submission)
        allowed = [self._allowed(destination, each) for each in submissions]
        if sum(len(arrival.submissions) for arrival in self.open) + len(submissions) > self.queue:
            allowed = [{*names, "overloaded"} for names in allowed]
        arrival = Arrival(destination, submissions, allowed)
        self.open.append(arrival)
        return arrival

    def _check_sent_once(self, destination: Destination, submission: Submission) -> None:
        """An honest device seals once a round, and always sends the same bytes."""
        if submission.envelope in self.by_envelope or submission.id not in self.by_id:
            return
        device, _ = self.by_id[submission.id]
        assert self.first_bytes.setdefault(submission.id, submission.envelope) == submission.envelope
        assert self.sent.setdefault((device, destination.round), submission.id) == submission.id

    def answered(self, arrival: Arrival, answers: Sequence[Answer]) -> None:
        """Check each answer, and note what was acknowledged."""
        self.open.remove(arrival)
        number = arrival.destination.round
        for submission, answer, allowed in zip(arrival.submissions, answers, arrival.allowed, strict=True):
            name = RECEIPT if isinstance(answer, Receipt) else answer.reason.value
            now_allowed = self._allowed(arrival.destination, submission)
            assert name in allowed | now_allowed, (name, allowed, now_allowed)
            self.answers[name] += 1
            self.said.append(Said(self.clock(), submission, answer))
            self.at_risk[name] += 1
            if name == RECEIPT:
                self.held.setdefault(number, {})[submission.id] = submission.envelope

    def abandon(self) -> None:
        """Whatever was not answered by now never will be; it may have been taken, and what was counted be lost."""
        for arrival in self.open:
            self.unanswered += len(arrival.submissions)
            maybe = self.maybe.setdefault(arrival.destination.round, {})
            for submission in arrival.submissions:
                maybe.setdefault(submission.id, set()).add(submission.envelope)
        self.open.clear()

    def killed(self) -> None:
        """The shuffler was killed: counts that may not have been on disk may be lost."""
        self.lost += self.at_risk
        self.at_risk.clear()

    # How it may be answered

    def _allowed(self, destination: Destination, submission: Submission) -> set[str]:
        if len(submission.id) != 16:
            return {"malformed"}
        if destination.task_id != self.task.id:
            return {"unknown_task"}
        if not 0 <= destination.round < self.task.schedule.rounds:
            return {"unknown_round"}
        of = self.observe(destination.round)
        fresh = self._fresh(of, destination, submission)
        maybe = self.maybe.get(destination.round, {}).get(submission.id, set())
        if of is None or of.state in FINAL:
            return fresh
        enrolled = self.task.admission.mode is Mode.ENROLLED
        if enrolled and of.keys is not None and not submission.proof:
            return {"not_enrolled"}
        held = self.held.get(destination.round, {}).get(submission.id)
        if held is not None:
            return {RECEIPT} if held == submission.envelope else {"id_conflict"}
        pending = {
            each.envelope
            for arrival in self.open
            for each in arrival.submissions
            if each.id == submission.id and arrival.destination == destination
        }
        possible = {RECEIPT if envelope == submission.envelope else "id_conflict" for envelope in maybe | pending}
        return fresh | possible

    def _fresh(self, of: Round | None, destination: Destination, submission: Submission) -> set[str]:
        """How a submission may be answered whose id is not held."""
        schedule, now, number = self.task.schedule, self.clock(), destination.round
        early = schedule.start + number * schedule.length - schedule.grace
        late = early + 2 * schedule.grace + schedule.length
        refused = set()
        if len(submission.envelope) != OUTER_BYTES and of is not None:
            return {"wrong_size"}
        if of is not None and of.state in FINAL:
            refused = {"erased"} if of.state is RoundState.ERASED else {"too_late", "erased"}
        elif now >= late or (of is not None and of.state is not RoundState.OPEN):
            refused = {"too_late"}
        elif now < early:
            refused = {"too_early"}
        elif of is None or of.keys is None:
            refused = {"not_ready"}
        elif of.keys.key_set.hash != destination.key_set_hash:
            refused = {"key_set_differs"}
        if refused:
            return refused | {"overloaded"}
        if self._content(submission) is None:
            return {"unopenable", "overloaded"} if self.is_full() else {"unopenable"}
        return {RECEIPT, "overloaded"} if self.is_full() else {RECEIPT}

    def _content(self, submission: Submission) -> Content | None:
        if submission.envelope in self.by_envelope:
            return self.by_envelope[submission.envelope]
        found = self.by_id.get(submission.id)
        return None if found is None else found[1]

    # What must come out

    def released(self, chunk: Envelopes) -> None:
        """Note what left the shuffler."""
        self.delivered.setdefault(chunk.batch.round, set()).update(chunk.envelopes)

    def outcomes(self, number: int, reports: int) -> Iterator[Expected]:
        """Every way a round of that many reports may come out: one, unless something was taken and never answered."""
        held = self.held.get(number, {})
        maybe = [
            Submission(submission_id, envelope)
            for submission_id, envelopes in self.maybe.get(number, {}).items()
            for envelope in sorted(envelopes)
            if submission_id not in held and self._content(Submission(submission_id, envelope)) is not None
        ]
        certain = [Submission(*item) for item in held.items()]
        for more in itertools.combinations(maybe, max(0, reports - len(certain))):
            if len({each.id for each in more}) == len(more):
                yield self._expected([*certain, *more])

    def _expected(self, submissions: Sequence[Submission]) -> Expected:
        counts, left_out = [], []
        for query, symbols in enumerate(SYMBOLS):
            inners = [content[query] for each in submissions if (content := self._content(each)) is not None]
            assert len(inners) == len(submissions)
            distinct = dict(inners)
            found = [0] * symbols
            reasons: Counter[str] = Counter(duplicate=len(inners) - len(distinct))
            for symbol in distinct.values():
                if symbol is None or symbol >= symbols:
                    reasons["unopenable" if symbol is None else "out_of_domain"] += 1
                else:
                    found[symbol] += 1
            counts.append(found)
            left_out.append({reason: count for reason, count in reasons.items() if count})
        return Expected(len(submissions), counts, left_out)


def histogram(counts: Sequence[int]) -> list[Fraction]:
    """The unbiased number of devices at each category: (N_j - nγ/k) / (1 - γ)."""
    blanket = sum(counts) * HALF / len(counts)
    return [(count - blanket) / (1 - HALF) for count in counts]


def total(counts: Sequence[int]) -> tuple[Fraction, Fraction]:
    """The unbiased number of those who answered, and the sum of their delays."""
    devices = histogram(counts)[:NO_ANSWER]
    width = Fraction(UPPER - LOWER, LEVELS)
    return sum(devices, Fraction(0)), sum(
        (each * (LOWER + level * width) for level, each in enumerate(devices)), Fraction(0)
    )
