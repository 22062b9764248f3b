"""What each kind of document is called, and how one of another version, or of two versions, is read or refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hubbub.client.privacy.certificates import read_certificate
from hubbub.client.session.sealed_submission import Outcome, SealedSubmission
from hubbub.protos.enrollment.tickets import Ticket
from hubbub.protos.errors import FormatError, HubbubError, SignatureError
from hubbub.protos.identity.documents import SignedDocument, canonical, parse_canonical, sign
from hubbub.protos.identity.formats import KINDS, Kind
from hubbub.protos.identity.keys import Identity, KeyRecord
from hubbub.protos.identity.successions import Succession
from hubbub.protos.oblivious.key_records import ObliviousRecord
from hubbub.protos.records.batch import BatchRecord, HopRecord
from hubbub.protos.records.counts import read_certified
from hubbub.protos.task.feed.entry import FeedEntry
from hubbub.protos.task.signed_task import SignedTask
from hubbub.verification.certificate import Pins, verify
from hubbub.verification.results_files import read_every
from support.messages import FORMAT_THAT_IS_READ
from vectors.make_signed import FOLDER, PARTIES, identity, vector_task

KEY = Identity.generate()


def test_each_format_is_named_once_after_its_kind_and_version() -> None:
    names = [name for kind in KINDS for name in kind.formats]
    assert len(set(names)) == len(names)
    for kind in KINDS:
        stems = {name.partition("/")[0] for name in kind.formats}
        assert len(stems) == 1
        assert [name.partition("/")[2] for name in kind.formats] == [
            str(place) for place, _ in enumerate(kind.formats, 1)
        ]


def test_docs_name_each_format() -> None:
    text = (FOLDER.parents[2] / "docs" / "reference" / "formats.md").read_text()
    named = re.findall(r"(?m)^\| [a-z ]+ \| `(hubbub-[a-z]+/[0-9]+)` \|", text)
    assert named == [*(kind.format for kind in KINDS), "hubbub-charge/1"]


# Two versions

OLD = Kind("task", ("hubbub-task/1",))
BOTH = Kind("task", ("hubbub-task/1", "hubbub-task/2"))


def test_a_second_version_is_read_beside_the_first_and_each_is_signed_under_its_own_name() -> None:
    first = SignedDocument.make(OLD, {"format": "hubbub-task/1", "rounds": 3}, KEY.key)
    second = SignedDocument.make(BOTH, {"format": "hubbub-task/2", "every": "3 rounds"}, KEY.key)
    # The one who knows both reads both, and tells them apart by a name that was checked.
    for document, format_ in ((first, "hubbub-task/1"), (second, "hubbub-task/2")):
        assert BOTH.check_named(document.content(BOTH, KEY.public)) == format_
    # The one who knows the first alone says which it was given, and which it reads.
    assert first.content(OLD, KEY.public)["rounds"] == 3
    with pytest.raises(FormatError, match=rf"'hubbub-task/2'.*; {FORMAT_THAT_IS_READ} hubbub-task/1$"):
        second.content(OLD, KEY.public)
    # A signature for one version does not serve for the other, whatever the document says that it is.
    for body, label in ((first.body, "hubbub-task/2"), (second.body, "hubbub-task/1")):
        with pytest.raises(SignatureError, match="signed as hubbub-task/"):
            SignedDocument(body, sign(label, body, KEY.key)).content(BOTH, KEY.public)
    with pytest.raises(FormatError, match=r"reads hubbub-task/1 and hubbub-task/2$"):
        BOTH.check_named({"format": "hubbub-task/3"})


# Another version


def vector(kind: Kind) -> Any:
    return parse_canonical((FOLDER / f"{kind.format.replace('/', '-')}.json").read_bytes())


def signed_again(kind: Kind, content: dict[str, Any], key: Identity) -> SignedDocument:
    body = canonical(content)
    return SignedDocument(body, sign(content["format"], body, key.key))


def _read_signed(read: Callable[[SignedDocument, bytes], object], key: Identity) -> Callable[[Kind, str], object]:
    """One that is signed by its party, as a later version would sign it."""

    def of(kind: Kind, format_: str) -> object:
        return read(signed_again(kind, {**vector(kind)["body"], "format": format_}, key), key.public)

    return of


def _inside(member: str, read: Callable[[bytes], object]) -> Callable[[Kind, str], object]:
    def of(kind: Kind, format_: str) -> object:
        value = vector(kind)
        value[member]["format"] = format_
        return read(canonical(value))

    return of


def _plain(read: Callable[[bytes], object]) -> Callable[[Kind, str], object]:
    return lambda _kind, format_: read(canonical({"format": format_}))


READERS: dict[str, dict[str, Callable[[Kind, str], object]]] = {
    "task": {"a file": _inside("task", SignedTask.decode)},
    "key record": {"a round's": _read_signed(KeyRecord.read, PARTIES.analyzer)},
    "batch record": {"the shuffler's": _read_signed(BatchRecord.read, PARTIES.shuffler)},
    "hop record": {"a hop's": _read_signed(HopRecord.read, identity(15))},
    "certificate": {
        "verify": _inside("body", lambda document: verify(document, Pins())),
        "a device": _inside("body", lambda document: read_certificate(document, vector_task())),
        "results": _inside("body", read_certified),
    },
    "succession": {"a file": _inside("body", Succession.decode)},
    "ticket": {"a file": _inside("body", Ticket.decode)},
    "feed entry": {"a file": _inside("body", FeedEntry.decode)},
    "oblivious key": {"a device": _read_signed(ObliviousRecord.read, PARTIES.shuffler)},
    "file of results": {"verify": _plain(lambda document: read_every(Path("results.json"), document))},
    "series of results": {"verify": _plain(lambda document: read_every(Path("all.json"), document))},
    "sealed submission": {"a gateway": _plain(SealedSubmission.decode)},
    "outcome": {"a device": _plain(Outcome.decode)},
}


def test_each_kind_has_a_reader_here() -> None:
    assert READERS.keys() == {kind.called for kind in KINDS}


@pytest.mark.parametrize(
    ("kind", "by"), [(kind, by) for kind in KINDS for by in READERS[kind.called]], ids=lambda each: str(each)[:40]
)
def test_a_document_of_another_version_is_refused_by_its_name(kind: Kind, by: str) -> None:
    other = f"{kind.format.partition('/')[0]}/2"
    with pytest.raises(HubbubError) as caught:
        READERS[kind.called][by](kind, other)
    assert f"'{other}'; {FORMAT_THAT_IS_READ} {kind.format}" in str(caught.value)
