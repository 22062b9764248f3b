"""Answers devices at the shuffler's ports: keys of rounds, submissions and tickets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from time import perf_counter

from hubbub.protos.identity.keys import KeySet
from hubbub.protos.messages import Answer, Redemption, Submission
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.rpc.enrollment import Enrolled
from hubbub.protos.sealing.envelope import Destination
from hubbub.protos.task.feed.feed import FeedPage
from hubbub.service.observability.timing import Observe
from hubbub.service.rpc.oblivious import ObliviousKeySource
from hubbub.shuffler.admit.admission import AdmissionHandler
from hubbub.shuffler.admit.coalescing import Coalescer
from hubbub.shuffler.admit.enrollment import CredentialIssuer

Pages = Callable[[int], Awaitable[FeedPage]]
"""Returns entries of the feed of tasks from a number on, as many as fit into a message."""


class DeviceHandler:
    """Answers the calls of devices (`service.rpc.MtlsHandler`); `observe` gets the seconds that submissions took.

    `pages` returns entries of the feed of tasks from a number on, if there is a feed. `shown` is the fingerprint of the
    certificate that the caller showed, None if it showed none.
    """

    def __init__(
        self,
        admission: AdmissionHandler,
        enrollment: CredentialIssuer,
        observe: Observe,
        shown: bytes | None = None,
        pages: Pages | None = None,
    ) -> None:
        self._admission = admission
        self._enrollment = enrollment
        self._observe = observe
        self._shown = shown
        self._pages = pages
        self._coalescer = Coalescer(admission.submit)

    def showing(self, fingerprint: bytes) -> DeviceHandler:
        """Return the handler for the device whose certificate has this fingerprint."""
        return DeviceHandler(self._admission, self._enrollment, self._observe, fingerprint, self._pages)

    @property
    def oblivious(self) -> ObliviousKeySource:
        """The keys by which the shuffler opens what comes through relays."""
        return self._admission.credentials

    async def get_round(self, task_id: bytes, round_number: int) -> KeySet:
        """Return a round's keys."""
        return await self._admission.get_round(task_id, round_number)

    async def submit(self, destination: Destination, submissions: Sequence[Submission]) -> list[Answer]:
        """Answer each submission, in order."""
        started = perf_counter()
        try:
            # A caller with a certificate is one device: its submissions are checked for it alone, so they are not
            # joined.
            if len(submissions) == 1 and self._shown is None:
                return [await self._coalescer.answer(destination, submissions[0])]
            return await self._admission.submit(destination, submissions, self._shown)
        finally:
            self._observe(perf_counter() - started)

    async def enroll(self, redemptions: Sequence[Redemption]) -> list[Enrolled]:
        """Answer each ticket, in order."""
        return await self._enrollment.enroll(redemptions)

    async def get_feed(self, first: int) -> FeedPage:
        """Return entries of the feed of tasks from a number on.

        Raises:
            Refusal: UNKNOWN_TASK if there is no feed.
        """
        if self._pages is None:
            raise no_feed()
        return await self._pages(first)

    def refused(self, destination: Destination | None, reason: Reason, count: int) -> None:
        """Count submissions that were refused before they reached `submit`."""
        self._admission.refused(destination, reason, count)


def no_feed() -> Refusal:
    """Return the refusal of who asks for a feed where there is none."""
    return Refusal(
        Reason.UNKNOWN_TASK, "this shuffler publishes no tasks by a feed; give the application the task's file"
    )
