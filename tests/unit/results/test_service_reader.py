"""A reader fetches, checks and pins the results of an analyzer, and refuses those of one that lies."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from unit.results.test_saved import FALSE, OVER_TIME
from unit.verification.test_results import PARTIES, results_of

from hubbub.protos.errors import HubbubError, SignatureError, Unreachable, UsageError
from hubbub.protos.identity.keys import Identity, Role
from hubbub.protos.identity.successions import Succession, SuccessionError
from hubbub.protos.messages import ListedTask
from hubbub.protos.records.counts import read_certified
from hubbub.protos.records.results import RoundResults
from hubbub.protos.records.results_document import series_document
from hubbub.protos.refusals import Refusal
from hubbub.protos.task.signed_task import SignedTask
from hubbub.protos.transport.channels import TLS
from hubbub.protos.transport.roles import READERS
from hubbub.results import NotVerified, ServiceReader, connect, open_saved
from hubbub.results.published_row import rows_of
from hubbub.service.rpc import serve_results
from hubbub.service.transport.grpc_server import listen
from hubbub.verification.pins import Pins
from support.ended_with_test import opened_server
from support.messages import GEVENT, NEEDS_ROLE, NOT_OF_GIVEN_KEY
from support.samples import Parties, make_tls, signed

ROUNDS = results_of(OVER_TIME)
TASK = read_certified(ROUNDS[0].certificate).task
KEYS = Pins(PARTIES.operator.public, PARTIES.shuffler.public, PARTIES.analyzer.public)


class Analyzer:
    """An analyzer with these rounds; `sent` replaces what it sends of some."""

    def __init__(self) -> None:
        self.sent: dict[int, RoundResults] = {}
        self.asked: list[int] = []
        self.signed: SignedTask = signed(TASK, PARTIES)

    async def list_tasks(self) -> list[ListedTask]:
        return [ListedTask(TASK.id, TASK.name)]

    async def get_task(self, _task_id: bytes) -> SignedTask:
        return self.signed

    async def list_results(self, _task_id: bytes | None) -> list[Any]:
        return [each.id for each in reversed(ROUNDS)]

    async def get_results(self, _task_id: bytes, number: int, _wait: float) -> RoundResults:
        self.asked.append(number)
        return self.sent.get(number, ROUNDS[number])

    async def get_statuses(self, _task_id: bytes | None) -> list[Any]:
        return []

    async def get_incidents(self) -> Any:
        raise AssertionError("nobody asks")


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> dict[str, TLS]:
    return make_tls(tmp_path_factory.mktemp("tls"), "analyzer", "reader", "reader:ana", "shuffler")


@pytest.fixture
def analyzer() -> Analyzer:
    return Analyzer()


@contextlib.asynccontextmanager
async def running(analyzer: Analyzer, tls: dict[str, TLS]) -> AsyncIterator[str]:
    async with opened_server() as server:
        serve_results(server, analyzer, READERS)
        port = listen(server, "127.0.0.1:0", tls["analyzer"].server(mutual=True))
        await server.start()
        yield f"127.0.0.1:{port}"


@pytest.fixture
async def address(analyzer: Analyzer, tls: dict[str, TLS]) -> AsyncIterator[str]:
    async with running(analyzer, tls) as found:
        yield found


async def read(reader: ServiceReader, **asked: Any) -> Any:
    return await asyncio.to_thread(lambda: reader.read(**asked))


async def test_all_rounds_are_read_in_one_call_in_order_and_pinned(address: str, tls: dict[str, TLS]) -> None:
    reader = connect(address, tls=tls["reader:ana"], keys=KEYS)
    table = await read(reader)
    assert list(table) == [row for each in ROUNDS for row in rows_of(each)]
    assert (table.trust.verified, table.trust.unpinned, dict(table.trust.left)) == (True, (), {})
    assert [each.round for each in await asyncio.to_thread(reader.rounds)] == [each.id.round for each in ROUNDS]


async def test_it_can_be_called_where_an_event_loop_runs(tls: dict[str, TLS]) -> None:
    """As in a notebook: the error is the connection's, and none of the loop's."""
    with pytest.raises(Unreachable):
        connect("127.0.0.1:1", tls=tls["reader"]).tasks()


async def test_rounds_behind_those_that_are_read_are_fetched_for_the_check_alone(
    address: str, analyzer: Analyzer, tls: dict[str, TLS]
) -> None:
    last = ROUNDS[-1].id.round
    table = await read(connect(address, tls=tls["reader"], keys=KEYS), rounds=[last])
    assert table.rounds == (last,)
    assert sorted(analyzer.asked) == [each.id.round for each in ROUNDS]


async def test_tasks_and_a_signed_task_are_shown(address: str, analyzer: Analyzer, tls: dict[str, TLS]) -> None:
    reader = connect(address, tls=tls["reader"], keys=KEYS)
    assert await asyncio.to_thread(reader.tasks) == (ListedTask(TASK.id, TASK.name),)
    found = await asyncio.to_thread(reader.task, TASK.name)
    assert found.task.id == TASK.id
    assert await asyncio.to_thread(reader.task, ListedTask(TASK.id, TASK.name)) == found
    for call in (reader.task, reader.rounds, reader.read):
        with pytest.raises(UsageError, match=f"there is no task 'other'; there are: {TASK.name}"):
            await asyncio.to_thread(call, "other")
    analyzer.signed = SignedTask(TASK).signed_by(PARTIES.operator)
    with pytest.raises(HubbubError, match="the shuffler has not signed"):
        await asyncio.to_thread(reader.task, TASK.name)


async def test_a_task_without_certified_rounds_is_told_from_one_that_is_unknown(
    address: str, analyzer: Analyzer, tls: dict[str, TLS], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def none(_task_id: bytes | None) -> list[Any]:
        return []

    monkeypatch.setattr(analyzer, "list_results", none)
    reader = connect(address, tls=tls["reader"], keys=KEYS)
    assert await asyncio.to_thread(reader.rounds, TASK.name) == ()
    with pytest.raises(UsageError, match=rf"no round of task {TASK.name} is certified yet; `hubbub status` shows"):
        await read(reader, task=TASK.name)
    with pytest.raises(UsageError, match="no round is certified yet"):
        await read(reader)


async def test_tasks_of_one_name_are_told_apart_by_their_ids(
    address: str, analyzer: Analyzer, tls: dict[str, TLS], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def two() -> list[ListedTask]:
        return [ListedTask(TASK.id, TASK.name), ListedTask(bytes(32), TASK.name)]

    monkeypatch.setattr(analyzer, "list_tasks", two)
    reader = connect(address, tls=tls["reader"], keys=KEYS)
    with pytest.raises(UsageError, match=f"2 tasks are called {TASK.name}; name one by its id: .*{'00' * 32}"):
        await asyncio.to_thread(reader.task, TASK.name)
    assert (await asyncio.to_thread(reader.task, TASK.id.hex())).task.id == TASK.id


async def test_an_analyzer_that_changes_an_estimate_is_refused(
    address: str, analyzer: Analyzer, tls: dict[str, TLS]
) -> None:
    (query,) = ROUNDS[0].queries
    assert query.estimates is not None
    first = query.estimates.rows[0]
    assert first.estimate is not None
    false = replace(first, estimate=replace(first.estimate, value=first.estimate.value + 1))
    rows = (false, *query.estimates.rows[1:])
    analyzer.sent[0] = replace(ROUNDS[0], queries=(replace(query, estimates=replace(query.estimates, rows=rows)),))
    with pytest.raises(Refusal, match="its results differ from its certificate"):
        await read(connect(address, tls=tls["reader"], keys=KEYS))
    table = await read(connect(address, tls=tls["reader"], keys=KEYS, verify=False))
    assert not table.trust.verified


@pytest.mark.parametrize("which", FALSE)
async def test_an_analyzer_whose_earlier_round_is_false_is_refused_for_a_later_one(
    which: str, address: str, analyzer: Analyzer, tls: dict[str, TLS]
) -> None:
    analyzer.sent[0], says = FALSE[which]
    with pytest.raises(HubbubError, match=says):
        await read(connect(address, tls=tls["reader"], keys=KEYS), rounds=[ROUNDS[-1].id.round])


async def test_an_analyzer_that_sends_another_round_is_refused(
    address: str, analyzer: Analyzer, tls: dict[str, TLS]
) -> None:
    analyzer.sent[1] = ROUNDS[0]
    with pytest.raises(NotVerified, match="sent round 0 instead of 1"):
        await read(connect(address, tls=tls["reader"], keys=KEYS))


async def test_an_analyzer_with_other_keys_is_refused(address: str, tls: dict[str, TLS]) -> None:
    others = replace(KEYS, analyzer=Parties.generate().analyzer.public)
    with pytest.raises(NotVerified, match=f"not of the analyzer {NOT_OF_GIVEN_KEY}: it names") as refused:
        await read(connect(address, tls=tls["reader"], keys=others))
    # An analyst gave a folder, and no options of a command.
    assert "--" not in str(refused.value)
    assert "put its succession, succession-*.json, beside the keys" in str(refused.value)
    swapped = replace(KEYS, analyzer=KEYS.shuffler, hops=(KEYS.shuffler,))
    with pytest.raises(NotVerified, match=r"in the file of its own party, such as operator\.pub\.pem"):
        await read(connect(address, tls=tls["reader"], keys=swapped))
    with pytest.raises(NotVerified, match=r"hops are none, not .* as pinned; give"):
        await read(connect(address, tls=tls["reader"], keys=replace(KEYS, hops=(KEYS.shuffler,))))


async def test_a_certificate_of_another_role_is_refused_with_the_one_that_is_needed(
    address: str, tls: dict[str, TLS]
) -> None:
    with pytest.raises(Refusal, match=f"{NEEDS_ROLE} operator or reader"):
        await read(connect(address, tls=tls["shuffler"]))


async def test_a_readers_folder_is_all_that_is_needed(address: str, tls: dict[str, TLS], tmp_path: Path) -> None:
    (tmp_path / "tls").mkdir()
    for name in ("authority.pem", "reader.pem", "reader.key"):
        shutil.copy(tls["reader"].certificate.parent / name, tmp_path / "tls")  # type: ignore[union-attr] # there is one
    (tmp_path / "trust").mkdir()
    for role in ("operator", "shuffler", "analyzer"):
        getattr(PARTIES, role).save_public(tmp_path / "trust" / f"{role}.pub.pem")
    assert (await read(connect(address, tmp_path))).trust.unpinned == ()


async def test_a_reader_with_the_new_key_alone_needs_the_succession_beside_it(
    address: str, tls: dict[str, TLS], tmp_path: Path
) -> None:
    new, (old, witness) = Identity.generate(), (PARTIES.shuffler, PARTIES.operator)
    for role, identity in (("operator", witness), ("shuffler", new), ("analyzer", PARTIES.analyzer)):
        identity.save_public(tmp_path / f"{role}.pub.pem")
    with pytest.raises(NotVerified, match=f"not of the shuffler {NOT_OF_GIVEN_KEY}"):
        await read(connect(address, tls=tls["reader"], keys=tmp_path))
    with pytest.raises(SignatureError, match="names another shuffler"):
        await asyncio.to_thread(connect(address, tls=tls["reader"], keys=tmp_path).task, TASK.name)
    succession = Succession(Role.SHUFFLER, old.public, new.public, witness.public, 2_000_000_000)
    beside = tmp_path / "succession-shuffler-1a2b3c4d.json"
    beside.write_bytes(succession.signed_by(old).signed_by(new).encode())
    with pytest.raises(SuccessionError, match=f"{beside}: .* is not signed by the operator"):
        connect(address, tls=tls["reader"], keys=tmp_path)
    beside.write_bytes(succession.signed_by(old).signed_by(new).signed_by(witness).encode())
    reader = connect(address, tls=tls["reader"], keys=tmp_path)
    assert (await read(reader)).trust.unpinned == ()
    assert (await asyncio.to_thread(reader.task, TASK.name)).task.id == TASK.id
    (tmp_path / "results.json").write_text(json.dumps(series_document(ROUNDS)))
    saved = open_saved(tmp_path / "results.json", keys=tmp_path)
    assert saved.read().trust.unpinned == ()
    assert saved.task().task.id == TASK.id


def test_a_reader_without_a_certificate_is_told_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a reader needs a certificate"):
        connect("127.0.0.1:7402")
    with pytest.raises(UsageError, match="the operator makes them with `hubbub certificate reader"):
        connect("127.0.0.1:7402", tmp_path)
    with pytest.raises(UsageError, match=r"there is no folder .*/gone; name a reader's"):
        connect("127.0.0.1:7402", tmp_path / "gone")
    (tmp_path / "tls").mkdir()
    (tmp_path / "tls" / "reader.pem").touch()
    with pytest.raises(UsageError, match=f"has a reader's certificate itself; name the folder above it, {tmp_path}$"):
        connect("127.0.0.1:7402", tmp_path / "tls")


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("127.0.0.1", "is not host:port"),
        ("https://127.0.0.1:7402", "is a URL or a path; give host:port"),
        ("127.0.0.1:0", "has port 0"),
        (7402, "an address is a text such as 127.0.0.1:7402, not 7402"),
    ],
)
def test_an_address_is_checked_before_anything_is_called(address: Any, says: str, tls: dict[str, TLS]) -> None:
    with pytest.raises(HubbubError, match=says):
        connect(address, tls=tls["reader"])


def test_where_a_call_would_never_return_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    patched = SimpleNamespace(is_module_patched=lambda name: name == "threading")
    monkeypatch.setitem(sys.modules, "gevent.monkey", patched)  # type: ignore[arg-type] # as a module
    reader = ServiceReader("localhost:1", TLS(None, None, None))
    for call in (reader.tasks, reader.rounds, reader.status, reader.read, lambda: reader.task("a")):
        with pytest.raises(UsageError, match=rf"{GEVENT}.*one that runs `hubbub results`"):
            call()
