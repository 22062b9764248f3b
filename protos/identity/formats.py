"""Lists the kinds of document that parties exchange, with the name and version of each that this version reads.

A document names its format in its member `format`, such as `hubbub-task/1`. A signed one is signed under that name, so
no signature is valid for two kinds, or for two versions of one. A document of another format is refused by that name.
docs/reference/formats.md describes each.

A second version of a kind is a second name in its `formats`. `SignedDocument.content` then takes signatures under both,
each for documents that name it, and `Kind.check_named` returns the format of a document.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from hubbub.protos.errors import FormatError
from hubbub.queries.errors import shown


class Label(StrEnum):
    """The subject of a hash, or of a signature over bytes that are no document; it is hashed or signed with them."""

    # These texts are part of the hashed and signed bytes: a change to one invalidates every earlier hash or signature.
    KEY_SET = "hubbub/v1 key set"
    BATCH_DIGEST = "hubbub/v1 batch digest"
    RELEASES = "hubbub/v1 releases"
    COUNTS = "hubbub/v1 counts"
    COUNTED = "hubbub/v1 counted batch"
    COUNTERSIGNED = "hubbub/v1 countersigned ticket"


@dataclass(frozen=True)
class Kind:
    """A kind of document: its name in messages, and its formats that this version reads, newest last."""

    called: str
    formats: tuple[str, ...]

    @property
    def format(self) -> str:
        """The newest format, which new documents have. It is also the label of their signatures."""
        return self.formats[-1]

    def check_named(self, content: Any) -> str:
        """Return the format that a document's content names, if it is a supported one of this kind.

        Raises:
            FormatError: naming it, and the supported formats.
        """
        named = content.get("format") if isinstance(content, dict) else None
        if named not in self.formats:
            names = "it names no format" if named is None else f"its format is {shown(named)}"
            raise FormatError(
                f"this {self.called} is not read here: {names}; this version of hubbub reads "
                f"{' and '.join(self.formats)}"
            )
        return str(named)


TASK = Kind("task", ("hubbub-task/1",))
KEY_RECORD = Kind("key record", ("hubbub-key/1",))
BATCH_RECORD = Kind("batch record", ("hubbub-batch/1",))
HOP_RECORD = Kind("hop record", ("hubbub-hop/1",))
CERTIFICATE = Kind("certificate", ("hubbub-certificate/1",))
SUCCESSION = Kind("succession", ("hubbub-succession/1",))
TICKET = Kind("ticket", ("hubbub-ticket/1",))
FEED_ENTRY = Kind("feed entry", ("hubbub-feed/1",))
OBLIVIOUS_KEY = Kind("oblivious key", ("hubbub-oblivious/1",))

SIGNED = (TASK, KEY_RECORD, BATCH_RECORD, HOP_RECORD, CERTIFICATE, SUCCESSION, TICKET, FEED_ENTRY, OBLIVIOUS_KEY)
"""The kinds that are signed."""


def in_words(label: str) -> str:
    """Return the name of documents signed under a label, for errors."""
    return next((kind.called for kind in SIGNED if label in kind.formats), label.partition(" ")[2])


RESULTS = Kind("file of results", ("hubbub-results/1",))
SERIES = Kind("series of results", ("hubbub-series/1",))
SEALED_SUBMISSION = Kind("sealed submission", ("hubbub-submission/1",))
OUTCOME = Kind("outcome", ("hubbub-outcome/1",))

KINDS = (*SIGNED, RESULTS, SERIES, SEALED_SUBMISSION, OUTCOME)
"""All kinds of document. A ledger's charges, which are never sent, name their format in `accountant.spending.entry`."""
