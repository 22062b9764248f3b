"""Everything that a page of the dictionary says about a task, in words, from the signed task alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hubbub import __version__
from hubbub.planning.task_words import noise_by_itself, promise_sentence, question_in_words
from hubbub.protos.errors import SignatureError
from hubbub.protos.identity.documents import fingerprint
from hubbub.protos.task.asked_question import Asked
from hubbub.protos.task.schedule import at
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.task.task import Task

HIDDEN = "all answers of one person in a round, replaced by any others: (ε, δ)-indistinguishable"
NOT_HIDDEN = (
    "that a person takes part, to the shuffler; the number of reports of a round, and of those left out, to everybody"
)


@dataclass(frozen=True)
class AskedQuestion:
    """A question: its name, what it asks, how it is asked and hidden, and the local ε of one answer."""

    name: str
    asks: str | None
    how: str
    epsilon_local: float


@dataclass(frozen=True)
class Entry:
    """A task as the dictionary shows it.

    Attributes:
        signed: the signed task, whose bytes are published beside the page.
        unsigned: why the signatures of operator and shuffler do not hold; None if both hold for the keys that the task
            names.
    """

    signed: SignedTask
    unsigned: str | None

    @classmethod
    def of(cls, signed: SignedTask) -> Entry:
        """Return the entry of a signed task, its signatures checked against the keys that it names itself."""
        named = signed.task.identities
        try:
            signed.check(named.operator, named.shuffler)
        except SignatureError as error:
            return cls(signed, str(error))
        return cls(signed, None)

    @property
    def task(self) -> Task:
        """The task."""
        return self.signed.task

    @property
    def file_name(self) -> str:
        """The name of its page and files, without an ending: two tasks may have one name, so it has part of the id."""
        return f"{self.task.name}-{self.task.id.hex()[:8]}"

    @property
    def begins(self) -> str:
        """When its first round opens."""
        return at(self.task.schedule.opens(0))

    @property
    def ends(self) -> str:
        """When its last round ends."""
        return at(self.task.schedule.ends(self.task.schedule.rounds - 1))

    @property
    def promise(self) -> str:
        """What everyone keeps in a round, in one sentence."""
        return promise_sentence(self.task, self.task.queries, noise_by_itself(self.task)[0])

    @property
    def questions(self) -> tuple[AskedQuestion, ...]:
        """What people are asked."""
        return tuple(self._question(each) for each in self.task.asked)

    @property
    def parties(self) -> tuple[tuple[str, str], ...]:
        """Each party, with the fingerprint of its key."""
        return tuple((name, fingerprint(key)) for name, key in self.task.identities.named.items())

    def _question(self, asked: Asked) -> AskedQuestion:
        task = self.task
        local = sum(task.queries[place].local_cost(0) for place in asked.places)
        asks = dict(task.about.questions).get(asked.name)
        return AskedQuestion(asked.name, asks, question_in_words(task, asked), local)

    def registered(self) -> dict[str, Any]:
        """Return the entry for a public registry of deployments of differential privacy.

        It has what the OpenDP registry's three tiers of transparency ask for; what the task does not state is None.
        """
        task = self.task
        return {
            "name": task.name,
            "data_curator": task.about.owner,
            "intended_use": task.about.purpose,
            "data_product": [f"{each.name}: {each.asks or each.how}" for each in self.questions],
            "data_product_location": task.about.results,
            "publication_begins": at(task.schedule.cut(0)),
            "differential_privacy": {
                "flavor": "approximate differential privacy, (ε, δ)",
                "model": "shuffle model: local randomizers, a shuffler and an analyzer of different parties",
                "data_domain": {each.name: each.how for each in self.questions},
                "protected": HIDDEN,
                "unprotected_quantities": NOT_HIDDEN,
            },
            "privacy_unit": "one person's device, with all that it sends in a round",
            "privacy_loss": self._privacy_loss(),
            "accounting": {
                "composition": "each round's certificate states ε of the round, and of all rounds so far composed",
                "post_processing": "estimates are computed from the released counts alone",
            },
            "implementation": self._implementation(),
            "task_id": task.id.hex(),
            "parties": dict(self.parties),
        }

    def _privacy_loss(self) -> dict[str, Any]:
        task, privacy = self.task, self.task.privacy
        return {
            "epsilon": privacy.epsilon,
            "delta": privacy.delta,
            "epsilon_local": privacy.epsilon_local,
            "epsilon_all_rounds": privacy.epsilon_total,
            "rounds": task.schedule.rounds,
            "minimum_reports": task.minimum_reports,
            "honest_share": privacy.honest_share,
            "in_words": self.promise,
        }

    def _implementation(self) -> dict[str, Any]:
        mechanisms = {
            query.name: {
                "randomizer": query.randomizer.kind,
                "epsilon_local": query.randomizer.mechanism.epsilon_local,
                "noise_of_the_shuffler": query.noise is not None,
            }
            for query in self.task.queries
        }
        return {
            "software": f"hubbub {__version__}",
            "mechanisms": mechanisms,
            "sampling": "exact, in whole numbers, from the operating system's randomness",
            "security": f"HPKE envelopes ({self.task.suite}), TLS, tasks and certificates signed with Ed25519",
        }
