"""The attacks of docs/explanation on enrolled devices and what they send, tried against one running deployment.

Four tasks run side by side, which differ in whom they admit, so that an attack which one refuses is seen to succeed in
another. Devices are the client's own; where somebody must read or change what they send, it stands between them and
the shuffler with the deployment's own TLS authority, which it is taken to have stolen.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
import pytest_asyncio

from hubbub.client import Device, KeyRecordError, Refusal, Retrying, RetryPolicy, SignatureError, Unreachable
from hubbub.client.state.rounds import RoundRef
from hubbub.deploy.pki.authority import Authority
from hubbub.deploy.pki.tickets import EnrolledDevices, renewed
from hubbub.protos import codec
from hubbub.protos.enrollment.credentials import Credential
from hubbub.protos.enrollment.tickets import Ticket, countersigned, new_tickets, signed
from hubbub.protos.errors import Distrusted, HubbubError
from hubbub.protos.identity.keys import Identity, KeyRecord, KeySet, Role
from hubbub.protos.messages import CredentialAction, CredentialStatus, RoundState
from hubbub.protos.refusals import Reason
from hubbub.protos.rpc import ControlCaller, ResultsCaller, SubmissionCaller
from hubbub.protos.task.admission import ENROLLED, OPEN, AdmissionPolicy, Mode
from hubbub.protos.task.task import Identities, Task
from hubbub.protos.transport.channels import TLS, open_channel
from hubbub.protos.v1 import submission_pb2
from hubbub.queries.questions.histogram import Histogram
from hubbub.queries.questions.number import Number
from support.attack_deployment import HOUR, MINIMUM, ROUNDS, Attacked, task_of
from support.krr_queries import krr_query, unary_query
from support.man_in_the_middle import Between, Change, as_bytes, as_it_is, between
from support.patience import CALL_SECONDS
from support.planted_secrets import found_in
from support.raw_device import Visitor, keys_ready, redeemed

pytestmark = pytest.mark.asyncio(loop_scope="module")

HALF = 2**31
PLANTED = "planted-answer-heliotrope"
PAGES = tuple(f"planted-page-{number}" for number in range(64))
THEME = krr_query(Histogram("theme", ("dark", "light", PLANTED)), HALF)
SESSION = krr_query(Number("session", 0.0, 60.0, "minutes", optional=True), HALF, levels=7)
PAGE = unary_query(Histogram("page", PAGES, optional=True), 3 * 2**30, 2**30)
ANSWERS: dict[str, Any] = {"theme": "dark", "session": 12.5, "page": PAGES[3]}
SECOND = Identity.generate()
LAST = ROUNDS - 1
"""The round that is in its time."""


def tasks(identities: Identities) -> tuple[Task, ...]:
    return (
        task_of("kiosks", ENROLLED, identities, (THEME, SESSION, PAGE)),
        task_of("countersigned", AdmissionPolicy(Mode.ENROLLED, SECOND.public), identities, (THEME,)),
        task_of("certified", AdmissionPolicy(Mode.MTLS), identities, (THEME,), "schedule"),
        task_of("anyone", OPEN, identities, (THEME,)),
    )


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Attacked]:
    async with Attacked(tasks, tmp_path_factory.mktemp("devices") / "pipeline") as pipeline:
        async with open_channel(pipeline.shuffler, TLS(pipeline.authority)) as channel:
            await keys_ready(channel, [each.task for each in pipeline.tasks])
        yield pipeline


def standing_between(
    running: Attacked, folder: Path, authority: Authority | None = None
) -> AbstractAsyncContextManager[Between]:
    """Somebody between devices and the shuffler, with an authority of its own or the deployment's."""
    operator = running.folder.of("operator")
    stolen = Authority.load(operator / "authority.key", operator / "tls" / "authority.pem")
    return between(running.shuffler, TLS(running.authority), authority or stolen, folder)


async def refused(device: Device, number: int, answers: dict[str, Any] = ANSWERS) -> Reason | None:
    """Submit; return why the shuffler refused."""
    async with device:
        try:
            await device.submit(answers, number)
        except Refusal as refusal:
            return refusal.reason
    return None


# A state file that somebody changed, or put back


async def test_a_device_whose_old_state_file_is_put_back_counts_once_and_is_told(
    running: Attacked, tmp_path: Path
) -> None:
    """The old file does not know that the round was answered, and draws anew: the shuffler keeps what came first."""
    ticket, path = running.ticket("rolled back"), tmp_path / "state.db"

    def device(state: Path) -> Device:
        return running.device_of("rolled back", ticket=ticket, state=state)

    before = (await running.round_status(running.task.task, LAST)).submissions
    assert await refused(device(path), 1) is None  # it enrolls with its first answer
    shutil.copyfile(path, tmp_path / "yesterday.db")
    async with device(path) as one:
        first = await one.submit(ANSWERS, LAST)
    (tmp_path / "yesterday.db").replace(path)
    async with device(path) as again:
        for _ in range(2):  # what is told is told each time, and nothing is drawn a third time
            with pytest.raises(Refusal, match="is an old copy, or one of two copies: another answered") as told:
                await again.submit(ANSWERS, LAST)
            assert told.value.reason is Reason.ID_CONFLICT
    # Two copies that were used beside each other are one such copy and another.
    shutil.copyfile(path, tmp_path / "copy.db")
    assert await refused(device(tmp_path / "copy.db"), LAST) is Reason.ID_CONFLICT
    # One of before it enrolled is told sooner.
    with pytest.raises(Refusal, match="or by this one before it lost its state"):
        await device(tmp_path / "new.db").submit(ANSWERS, LAST)
    assert first.round == LAST
    assert (await running.round_status(running.task.task, LAST)).submissions == before + 1


# Who is let in


async def test_devices_that_the_operator_makes_up_take_no_part_where_a_second_authority_must_sign(
    running: Attacked,
) -> None:
    """The same made-up devices fill a batch of a task that asks for no second authority."""
    operator, expires = running.identity(Role.OPERATOR), int(time.time()) + HOUR
    made_up = new_tickets(MINIMUM, running.shuffler_key, expires, [operator])
    signed_by_another = new_tickets(MINIMUM, running.shuffler_key, expires, [operator, Identity.generate()])
    forged = [
        replace(ticket, signatures=(*ticket.signatures, (SECOND.public, os.urandom(64)))).encode() for ticket in made_up
    ]
    (real,) = new_tickets(1, running.shuffler_key, expires, [operator, SECOND])
    async with open_channel(running.shuffler, TLS(running.authority)) as channel:
        assert {await redeemed(channel, ticket) for ticket in forged} == {Reason.BAD_TICKET}
        credentials = [await redeemed(channel, ticket.encode()) for ticket in (*made_up, *signed_by_another)]
        countersigned = await Visitor.at(channel, running.named("countersigned").task)
        kiosks = await Visitor.at(channel, running.task.task)
        for credential in credentials:
            assert isinstance(credential, Credential)
            assert await countersigned.prove(credential) is Reason.NOT_COUNTERSIGNED
            assert await kiosks.prove(credential) is None
        honest = await redeemed(channel, real.encode())
        assert isinstance(honest, Credential)
        assert await countersigned.prove(honest) is None
    task = running.named("countersigned").task
    status = await running.round_status(task, 0)
    assert (status.submissions, status.refusals["not_countersigned"]) == (1, 2 * MINIMUM)
    with pytest.raises(Refusal) as caught:
        await running.close(task, 0)
    assert caught.value.reason is Reason.BELOW_MINIMUM


async def test_a_stolen_device_is_the_device_until_it_is_revoked_and_nobody_from_then_on(
    running: Attacked, tmp_path: Path
) -> None:
    assert await refused(running.device_of("lost"), 0) is None
    state = running.folder.of("client") / "lost.db"
    shutil.copy(state, tmp_path / "stolen.db")
    stolen = running.device_of("lost", state=tmp_path / "stolen.db")
    assert await refused(stolen, 1) is None
    await revoke(running, running.ticket("lost"))
    for attempt in (
        running.device_of("lost", state=tmp_path / "stolen.db"),
        running.device_of("lost"),
        running.device_of("lost", state=tmp_path / "only the ticket.db"),
    ):
        assert await refused(attempt, LAST) is Reason.REVOKED
    assert await refused(running.device_of("kept"), LAST) is None


async def test_a_renewed_ticket_counts_where_both_authorities_signed_it_and_never_for_a_second_submission(
    running: Attacked,
) -> None:
    """Its device is revoked between: then none of its tickets counts, whoever signs it, by no master key."""
    operator, task, now = running.identity(Role.OPERATOR), running.named("countersigned").task, int(time.time())
    (first,) = new_tickets(1, running.shuffler_key, now + HOUR, [operator, SECOND])
    known, later = EnrolledDevices(first.device, first), iter(range(now + 2 * HOUR, now + 9 * HOUR, HOUR))
    by_one = renewal_of(known, operator, next(later))
    (by_another,) = countersigned([renewal_of(known, operator, next(later))], Identity.generate())
    (by_both,) = countersigned([renewal_of(known, operator, next(later))], SECOND)
    (by_second,) = signed([Ticket(first.device, running.shuffler_key, next(later))], [SECOND])
    with pytest.raises(HubbubError, match="only countersigned the ticket"):
        renewal_of(known, SECOND, next(later))
    async with open_channel(running.shuffler, TLS(running.authority)) as channel:
        rounds = [await Visitor.at(channel, task, number) for number in range(ROUNDS)]
        credential = await credential_of(channel, first)
        assert await rounds[1].prove(credential) is None
        for ticket in (by_one, by_another):
            assert await rounds[2].prove(await credential_of(channel, ticket)) is Reason.NOT_COUNTERSIGNED
        assert await redeemed(channel, by_second.encode()) is Reason.BAD_TICKET
        # The earlier one counts until its own end; the two lead to one place in each round.
        renewal = await credential_of(channel, by_both)
        assert await rounds[2].prove(credential) is None
        assert [await rounds[number].prove(renewal) for number in (1, 2)] == [Reason.ID_CONFLICT] * 2
        for step in (CredentialAction.PREPARE, CredentialAction.ACTIVATE, CredentialAction.FORGET):
            await managed(running, step)
        assert await rounds[LAST].prove(renewal) is Reason.NOT_ENROLLED
        anew = await credential_of(channel, by_both)
        assert await rounds[2].prove(anew) is Reason.ID_CONFLICT
        await revoke(running, first.encode())
        assert await rounds[LAST].prove(anew) is Reason.REVOKED
        (last,) = countersigned([renewal_of(known, operator, next(later))], SECOND)
        for ticket in (first, by_both, last):
            assert await redeemed(channel, ticket.encode()) is Reason.REVOKED


def renewal_of(known: EnrolledDevices, signer: Identity, expires: int) -> Ticket:
    (ticket,) = renewed({"": [known]}, signer, None, expires)[""]
    return ticket


async def credential_of(channel: grpc.aio.Channel, ticket: Ticket) -> Credential:
    found = await redeemed(channel, ticket.encode())
    assert isinstance(found, Credential), found
    return found


async def managed(running: Attacked, step: CredentialAction, *devices: bytes) -> CredentialStatus:
    async with open_channel(running.services[Role.SHUFFLER].addresses["control"], running.operator_tls) as channel:
        return await ControlCaller(channel).manage_credentials(step, devices, CALL_SECONDS)


async def revoke(running: Attacked, ticket: bytes) -> None:
    assert (await managed(running, CredentialAction.REVOKE, Ticket.decode(ticket).device)).revoked


async def test_a_credential_ends_with_its_ticket(running: Attacked) -> None:
    """What is unopenable is refused as such while the credential holds, and as of an expired one from then on."""
    async with open_channel(running.shuffler, TLS(running.authority)) as channel:
        visitor = await Visitor.at(channel, running.task.task)
        made = visitor.sealed()
        broken = replace(made, envelope=made.envelope[::-1])
        # On a machine with much else to do the first of these are over before they are used.
        for seconds in (2, 5, 20, 60):
            ticket = short_lived(running, seconds)
            credential = await redeemed(channel, ticket)
            if not isinstance(credential, Credential):
                continue
            if (reason := await visitor.send(credential.proven(visitor.to, broken))) is Reason.UNOPENABLE:
                break
        assert isinstance(credential, Credential)
        while reason is Reason.UNOPENABLE:
            reason = await visitor.send(credential.proven(visitor.to, broken))
        assert reason is Reason.CREDENTIAL_EXPIRED
        assert await visitor.prove(credential) is Reason.CREDENTIAL_EXPIRED
        assert await redeemed(channel, ticket) is Reason.TICKET_EXPIRED
        assert await redeemed(channel, ticket, b"t" * 32) is Reason.TICKET_EXPIRED


def short_lived(running: Attacked, seconds: int) -> bytes:
    """A ticket that is over in so many seconds."""
    operator = running.identity(Role.OPERATOR)
    (ticket,) = new_tickets(1, running.shuffler_key, int(time.time()) + seconds, [operator])
    return ticket.encode()


async def test_a_task_by_certificates_takes_one_of_each_and_none_without(running: Attacked, tmp_path: Path) -> None:
    """An open task takes both of the same two."""
    devices = running.services[Role.SHUFFLER].addresses["devices"]
    task, anyone = running.named("certified"), running.named("anyone")
    first, second = running.certificate("one"), running.certificate("other")
    for tls, state, reason in (
        (first, "first", None),
        (first, "again", Reason.ID_CONFLICT),
        (second, "second", None),
        (second, "once more", Reason.ID_CONFLICT),
    ):
        shown = {"certificate": tls.certificate, "key": tls.key, "ticket": None, "shuffler": devices}
        device = running.device_of(state, task, state=tmp_path / f"{state}.db", **shown)
        assert await refused(device, 0, {"theme": "dark"}) is reason
    async with open_channel(running.shuffler, TLS(running.authority)) as channel:
        credential = await redeemed(channel, running.ticket("enrolled elsewhere"))
        assert isinstance(credential, Credential)
        visitor = await Visitor.at(channel, task.task)
        assert await visitor.send(visitor.sealed()) is Reason.NOT_ENROLLED
        assert await visitor.prove(credential) is Reason.NOT_ENROLLED
        elsewhere = await Visitor.at(channel, anyone.task)
        assert [await elsewhere.send(elsewhere.sealed()) for _ in range(2)] == [None, None]
    strangers = running.certificate("stranger", Authority.generate("strangers"))
    for tls in (TLS(running.authority), strangers, running.operator_tls):
        async with open_channel(devices, tls) as channel:
            with pytest.raises(Unreachable):
                await SubmissionCaller(channel).get_round(task.task.id, 0, CALL_SECONDS)
    assert (await running.round_status(task.task, 0)).submissions == 2


async def test_an_exchanged_authority_of_devices_is_trusted_beside_the_next_and_then_no_more(
    running: Attacked, tmp_path: Path
) -> None:
    task, devices = running.named("certified"), running.services[Role.SHUFFLER].addresses["devices"]
    following, trusted = Authority.generate("next devices"), running.folder.of("shuffler") / "tls" / "devices.pem"
    before, file = trusted.read_bytes(), tmp_path / "next.pem"
    following.save_certificate(file)
    old, new = running.certificate("of the old"), running.certificate("of the next", following)

    async def submitted(tls: TLS, number: int) -> bool:
        """Submit to a round as the device of a certificate; return whether it was let in."""
        shown = {"certificate": tls.certificate, "key": tls.key, "ticket": None, "shuffler": devices}
        quick = Retrying(RetryPolicy(total=3.0, call=3.0))
        state = tmp_path / f"{number} {Path(str(tls.certificate)).stem}.db"
        async with running.device_of("", task, state=state, retrying=quick, **shown) as device:
            try:
                return (await device.submit({"theme": "dark"}, number)).sent
            except Unreachable:
                return False

    assert [await submitted(each, 1) for each in (old, new)] == [True, False]
    for content, let_in in ((before + file.read_bytes(), [True, True]), (file.read_bytes(), [False, True])):
        number = 2 if all(let_in) else LAST
        await running.stop(Role.SHUFFLER)
        trusted.write_bytes(content)
        await running.start(Role.SHUFFLER)
        assert [await submitted(each, number) for each in (old, new)] == let_in
        assert (await running.round_status(task.task, number)).submissions == sum(let_in)
    await running.stop(Role.SHUFFLER)
    trusted.write_bytes(before)
    await running.start(Role.SHUFFLER)


# Who stands in the shuffler's place


def own_keys(running: Attacked, roles: tuple[Role, ...], number: int = 0) -> Change:
    """Put keys of one's own, signed by an identity of one's own, in the place of those that the shuffler gives out."""

    def change(method: str, answer: bytes) -> bytes:
        if method != "GetRound":
            return answer
        task, forger = running.task.task, Identity.generate()
        keys = codec.read_key_set(submission_pb2.GetRoundResponse.FromString(answer).key_set)
        for role in roles:
            span = (int(time.time()) - HOUR, int(time.time()) + 5 * HOUR)
            record = KeyRecord(role, task.id, number, task.suite, task.hpke.generate_key()[1], *span)
            forged: dict[str, Any] = {role.value: record.signed_by(forger)}
            keys = replace(keys, **forged)
        return written(keys)

    return change


def written(keys: KeySet) -> bytes:
    return submission_pb2.GetRoundResponse(key_set=codec.write_key_set(keys)).SerializeToString()


async def test_who_poses_as_the_shuffler_is_given_nothing(running: Attacked, tmp_path: Path) -> None:
    async with standing_between(running, tmp_path / "own", Authority.generate()) as poser:
        async with running.device_of("posed to", shuffler=poser.address) as device:
            with pytest.raises(Distrusted):
                await device.submit(ANSWERS, 0)
        assert poser.asked == []


@pytest.mark.parametrize("case", ["the shuffler's key", "the analyzer's key", "both keys", "another round's keys"])
async def test_who_stole_the_tls_authority_cannot_have_reports_sealed_to_its_own_keys(
    running: Attacked, tmp_path: Path, case: str
) -> None:
    async with standing_between(running, tmp_path / "stolen") as thief:
        thief.change = {
            "the shuffler's key": own_keys(running, (Role.SHUFFLER,)),
            "the analyzer's key": own_keys(running, (Role.ANALYZER,)),
            "both keys": own_keys(running, (Role.SHUFFLER, Role.ANALYZER)),
            "another round's keys": await keys_of(running, 1),
        }[case]
        async with running.device_of(f"robbed of {case}", shuffler=thief.address) as device:
            with pytest.raises((SignatureError, KeyRecordError)):
                await device.submit(ANSWERS, 0)
            assert thief.methods == ["GetRound"]
            # What is left of the attack: passed on unchanged, all is as without anybody between.
            thief.change = as_it_is
            assert (await device.submit(ANSWERS, 0)).sent
            assert thief.methods == ["GetRound", "GetRound", "Enroll", "Submit"]


async def keys_of(running: Attacked, number: int) -> Change:
    async with open_channel(running.shuffler, TLS(running.authority)) as channel:
        request = submission_pb2.GetRoundRequest(task_id=running.task.task.id, round=number).SerializeToString()
        answer = await as_bytes(channel, "/hubbub.v1.SubmissionService/GetRound", request)
    return lambda method, given: answer if method == "GetRound" else given


# What the network sees


async def test_no_length_on_the_way_tells_an_answer_or_silence(running: Attacked, tmp_path: Path) -> None:
    """All messages of devices have the same lengths, whatever they answer; those of another task have others."""
    given: list[dict[str, Any]] = [
        {"theme": "dark", "session": 0.0, "page": PAGES[0]},
        {"theme": PLANTED, "session": 60.0, "page": PAGES[63]},
        {"theme": "light", "session": None, "page": None},
        {"theme": "light"},
    ]
    lengths = []
    async with standing_between(running, tmp_path / "between") as watcher:
        for place, answers in enumerate(given):
            assert await refused(running.device_of(f"watched {place}", shuffler=watcher.address), 0, answers) is None
            lengths.append([(method, len(message)) for method, message in watcher.asked])
            watcher.asked.clear()
        async with running.device_of("elsewhere", running.named("anyone"), shuffler=watcher.address) as device:
            await device.submit({"theme": "dark"}, 0)
        (other,) = [len(message) for method, message in watcher.asked if method == "Submit"]
    assert lengths == [lengths[0]] * len(given)
    assert [method for method, _ in lengths[0]] == ["GetRound", "Enroll", "Submit"]
    assert other != lengths[0][-1][1]


class Moved:
    """A device's clock, which is moved by its waiting."""

    def __init__(self, watcher: Between) -> None:
        self.now = time.time()
        self.asked_before: list[int] = []
        self._watcher = watcher

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.asked_before.append(len(self._watcher.asked))
        self.now += seconds


async def test_nothing_is_on_the_way_before_a_drawn_moment_which_a_restart_does_not_change(
    running: Attacked, tmp_path: Path
) -> None:
    """Used and then stopped, a device comes at the moment that was drawn then; without `spread` it comes at once."""
    async with standing_between(running, tmp_path / "between") as watcher:
        clock = Moved(watcher)
        watched: dict[str, Any] = {"shuffler": watcher.address, "clock": clock, "retrying": Retrying(sleep=clock.sleep)}
        used = clock.now
        async with running.device_of("spread", **watched) as device:
            assert device.keep(ANSWERS, LAST, spread=True)
            kept = device._session.state.find(RoundRef(device.task.id, LAST), [""])[""].send_time
        assert kept is not None
        assert used < kept <= running.task.task.schedule.ends(LAST)
        async with running.device_of("spread", **watched) as again:
            assert (await again.submit({"theme": "light"}, LAST, spread=True)).sent
        assert clock.asked_before
        assert set(clock.asked_before) == {0}
        assert clock.now == pytest.approx(kept)
        assert watcher.methods == ["GetRound", "Enroll", "Submit"]
        watcher.asked.clear()
        clock.asked_before.clear()
        async with running.device_of("at once", **watched) as hasty:
            assert (await hasty.submit(ANSWERS, LAST)).sent
        assert (clock.asked_before, watcher.methods) == ([], ["GetRound", "Enroll", "Submit"])


async def test_nothing_is_released_before_the_cut_however_many_came_and_whoever_asks(running: Attacked) -> None:
    kiosks, certified = running.task.task, running.named("certified").task
    async with open_channel(running.shuffler, TLS(running.authority)) as channel:
        visitor = await Visitor.at(channel, kiosks, 2)
        for ticket in running.tickets(3 * MINIMUM):
            credential = await redeemed(channel, ticket)
            assert isinstance(credential, Credential)
            assert await visitor.prove(credential) is None
    status = await running.round_status(kiosks, 2)
    assert (status.state, status.submissions >= 3 * MINIMUM) == (RoundState.OPEN, True)
    async with open_channel(running.services[Role.ANALYZER].addresses["results"], running.operator_tls) as channel:
        reader = ResultsCaller(channel)
        (status,) = [each for each in await reader.get_statuses(kiosks.id, CALL_SECONDS) if each.id.round == 2]
        assert status.queries == ()
        with pytest.raises(Refusal) as caught:
            await reader.get_results(kiosks.id, 2, 0.0, CALL_SECONDS)
        assert caught.value.reason is Reason.NO_RESULTS
    # Who has a task closed by its schedule cannot have it cut earlier, be it the operator.
    with pytest.raises(Refusal) as caught:
        await running.close(certified, 0)
    assert caught.value.reason is Reason.CLOSED_BY_SCHEDULE
    await running.close(kiosks, 2)
    assert (await running.results(2)).certificate


# What a thief of the state file reads


async def test_a_state_file_holds_no_answer_and_no_report_once_it_is_sent(running: Attacked, tmp_path: Path) -> None:
    """The randomized reports are found as long as they wait: so long they are what a thief would have."""
    answers: dict[str, Any] = {"theme": PLANTED, "session": 59.0, "page": PAGES[17]}
    answered = [PLANTED.encode(), PAGES[17].encode()]
    state = tmp_path / "state"
    state.mkdir()
    async with standing_between(running, tmp_path / "between") as watcher:
        async with running.device_of("read", state=state / "device.db", shuffler="127.0.0.1:1") as device:
            with pytest.raises(Unreachable):
                await device.submit(answers, 0, timeout=0.2)
            (entry,) = device._session.state.find(RoundRef(device.task.id, 0), [""]).values()
            assert entry.reports is not None
            waiting = content(state)
        assert found_in(waiting, [*answered, entry.reports]) == [entry.reports]
        async with running.device_of("read", state=state / "device.db", shuffler=watcher.address) as device:
            assert (await device.submit({"theme": "dark"}, 0)).sent
            sent = content(state)
        (message,) = [message for method, message in watcher.asked if method == "Submit"]
        sealed = submission_pb2.SubmitRequest.FromString(message).submission.envelope
    for after in (sent, content(state)):
        assert found_in(after, [*answered, entry.reports, sealed[:32], sealed[-32:]]) == []


def content(folder: Path) -> bytes:
    """All that stands in a folder's files."""
    return b"".join(path.read_bytes() for path in sorted(folder.iterdir()))
