"""Tickets from the command line, and what the operator does with credentials, on running services."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from hubbub.client import Refusal, Retrying
from hubbub.deploy.local.pipeline import LocalPipeline
from hubbub.deploy.pki.tickets import devices_given, read_tickets
from hubbub.protos.errors import HubbubError
from hubbub.protos.identity.documents import fingerprint
from hubbub.protos.identity.keys import Identity, Role, load_public
from hubbub.protos.messages import Submission
from hubbub.protos.refusals import Reason
from hubbub.protos.rpc import SubmissionCaller
from hubbub.protos.sealing.envelope import Destination, outer_bytes
from hubbub.protos.task.admission import OPEN
from hubbub.protos.task.schedule import Schedule
from hubbub.protos.task.task import Draft, Privacy
from hubbub.protos.transport.channels import TLS, open_channel
from hubbub.queries.questions.histogram import Histogram
from support.cli import Ran, hubbub, hubbub_here
from support.patience import CALL_SECONDS, PATIENCE
from support.samples import FEW

HOUR = 3600


@pytest.fixture
def keys(tmp_path: Path) -> tuple[str | Path, ...]:
    operator, shuffler = Identity.generate(), Identity.generate()
    operator.save(tmp_path / "operator.pem")
    operator.save_public(tmp_path / "operator.pub.pem")
    shuffler.save_public(tmp_path / "shuffler.pub.pem")
    return "--key", tmp_path / "operator.pem", "--shuffler-key", tmp_path / "shuffler.pub.pem"


def test_one_ticket_is_in_a_file_that_only_its_owner_reads(tmp_path: Path, keys: tuple[str | Path, ...]) -> None:
    ran = hubbub("enroll", tmp_path / "ticket.json", *keys, "--days", "2", "--json")
    assert ran.status == 0, ran.err
    (ticket,) = read_tickets(tmp_path / "ticket.json")
    assert ran.json["devices"] == [ticket.device.hex()]
    assert time.time() + 47 * HOUR < ticket.expires < time.time() + 49 * HOUR
    assert stat.S_IMODE((tmp_path / "ticket.json").stat().st_mode) == 0o600
    again = hubbub("enroll", tmp_path / "ticket.json", *keys)
    assert again.status == 1
    assert "exists, and a ticket is never overwritten; name a new file" in again.err


def test_many_tickets_are_one_a_line_and_may_be_countersigned(tmp_path: Path, keys: tuple[str | Path, ...]) -> None:
    file = tmp_path / "tickets.jsonl"
    ran = hubbub("enroll", file, *keys, "--devices", "30")
    assert (ran.status, ran.out.startswith("30 tickets in ")) == (0, True)
    second = Identity.generate()
    second.save(tmp_path / "second.pem")
    ran = hubbub("enroll", file, "--countersign", "--key", tmp_path / "second.pem", "--json")
    assert ran.json["tickets"] == 30
    tickets = read_tickets(file)
    assert len({ticket.device for ticket in tickets}) == 30
    for ticket in tickets:
        ticket.check_countersigned(second.public)
        assert len(ticket.signatures) == 2
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    # The second authority cannot renew them: the shuffler would take none.
    renewing = hubbub("enroll", tmp_path / "next", "--renew", file, "--days", "700", "--key", tmp_path / "second.pem")
    assert renewing.status == 1
    assert "only countersigned the ticket, and another key made it; sign with the key that made it" in renewing.err
    assert not (tmp_path / "next").exists()


def test_each_name_of_a_list_has_a_file_and_no_ticket_has_a_name(tmp_path: Path, keys: tuple[str | Path, ...]) -> None:
    names = tmp_path / "people.txt"
    names.write_text("olga\n\npetra h\n")
    ran = hubbub("enroll", tmp_path / "tickets", *keys, "--names", names, "--json")
    assert ran.status == 0, ran.err
    (olga,) = read_tickets(tmp_path / "tickets" / "olga.ticket")
    assert list(ran.json["names"]) == ["olga", "petra h"]
    assert ran.json["names"]["olga"] == olga.device.hex() == ran.json["devices"][0]
    files = sorted((tmp_path / "tickets").iterdir())
    assert [file.name for file in files] == ["olga.ticket", "petra h.ticket"]
    assert not any(b"olga" in file.read_bytes() for file in files)


def test_whose_tickets_they_are_and_who_signed_them_is_printed(tmp_path: Path, keys: tuple[str | Path, ...]) -> None:
    """So that a wrong --shuffler-key is seen before the tickets are handed out."""
    ran = hubbub_here("enroll", tmp_path / "tickets.jsonl", *keys, "--devices", "3")
    operator, shuffler = (load_public(tmp_path / f"{party}.pub.pem") for party in ("operator", "shuffler"))
    assert ran.out.splitlines()[1:] == [f"for shuffler {fingerprint(shuffler)}", f"signed by {fingerprint(operator)}"]


def test_a_folder_of_tickets_is_revoked_as_a_file_is(tmp_path: Path, keys: tuple[str | Path, ...]) -> None:
    (tmp_path / "names.txt").write_text("olga\npetra\n")
    made = hubbub_here("enroll", tmp_path / "tickets", *keys, "--names", tmp_path / "names.txt", "--json").json
    assert [each.hex() for each in devices_given((), tmp_path / "tickets")] == made["devices"]
    one = tmp_path / "tickets" / "petra.ticket"
    assert [each.hex() for each in devices_given((), one)] == [made["names"]["petra"]]
    with pytest.raises(HubbubError, match=r"names\.txt: line 1 is neither a ticket nor"):
        devices_given((), tmp_path / "names.txt")


def test_tickets_are_renewed_for_the_same_devices_one_a_line_and_by_name(
    tmp_path: Path, keys: tuple[str | Path, ...]
) -> None:
    (tmp_path / "people.txt").write_text("olga\npetra h\n")
    assert hubbub("enroll", tmp_path / "old", *keys, "--names", tmp_path / "people.txt", "--days", "9").status == 0
    second = Identity.generate()
    second.save(tmp_path / "second.pem")
    countersign = ("--countersign", "--key", tmp_path / "second.pem")
    # One signature is for both, so both must be there.
    alone = hubbub("enroll", tmp_path / "old" / "olga.ticket", *countersign)
    assert (alone.status, "1 of the 2 tickets of a list are here" in alone.err) == (1, True)
    assert hubbub("enroll", tmp_path / "old", *countersign).out.startswith("countersigned 2 in ")
    for name in ("olga", "petra h"):
        (ticket,) = read_tickets(tmp_path / "old" / f"{name}.ticket")
        ticket.check_countersigned(second.public)
    ran = hubbub("enroll", tmp_path / "new", "--renew", tmp_path / "old", *keys[:2], "--json")
    assert ran.status == 0, ran.err
    assert "a second authority signed 2 of the old tickets" in ran.err
    files = sorted((tmp_path / "new").iterdir())
    assert [file.name for file in files] == ["olga.ticket", "petra h.ticket"]
    for file, device in zip(files, ran.json["devices"], strict=True):
        (before,), (after,) = read_tickets(tmp_path / "old" / file.name), read_tickets(file)
        assert after.device == before.device == bytes.fromhex(device)
        assert after.expires > before.expires + 350 * 24 * HOUR
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    (tmp_path / "ids").write_text("\n".join(ran.json["devices"]))
    by_id = hubbub("enroll", tmp_path / "lines", "--renew", tmp_path / "ids", *keys, "--days", "700")
    assert (by_id.status, by_id.out.startswith("2 tickets in ")) == (0, True)
    assert [each.device.hex() for each in read_tickets(tmp_path / "lines")] == ran.json["devices"]
    # The document that was printed has the names too, so what is made of it keeps them.
    (tmp_path / "ids.json").write_text(ran.out)
    by_name = hubbub("enroll", tmp_path / "named", "--renew", tmp_path / "ids.json", *keys, "--days", "800", "--json")
    assert (by_name.status, by_name.json["names"]) == (0, ran.json["names"])
    assert sorted(file.name for file in (tmp_path / "named").iterdir()) == ["olga.ticket", "petra h.ticket"]


@pytest.mark.parametrize(
    ("content", "says"),
    [("a/b", "cannot be the name of a file"), ("..", "cannot be"), ("a\na", "'a' occurs twice"), ("\n", "no name")],
)
def test_a_list_that_gives_no_files_is_refused(
    tmp_path: Path, keys: tuple[str | Path, ...], content: str, says: str
) -> None:
    names = tmp_path / "people.txt"
    names.write_text(content)
    ran = hubbub("enroll", tmp_path / "tickets", *keys, "--names", names)
    assert ran.status == 2
    assert says in ran.err
    assert not (tmp_path / "tickets").exists()


def test_words_that_do_not_go_together_are_refused(tmp_path: Path, keys: tuple[str | Path, ...]) -> None:
    ran = hubbub("enroll", tmp_path / "t", *keys[:2])
    assert (ran.status, "--shuffler-key" in ran.err) == (2, True)
    public = tmp_path / "same.pub.pem"
    Identity.load(Path(keys[1])).save_public(public)
    ran = hubbub("enroll", tmp_path / "t", *keys[:2], "--shuffler-key", public)
    assert (ran.status, "are keys of one identity" in ran.err) == (2, True)
    assert not (tmp_path / "t").exists()
    ran = hubbub("enroll", tmp_path / "t", *keys, "--devices", "2", "--names", tmp_path / "x")
    assert (ran.status, "give one of them" in ran.err) == (2, True)
    ran = hubbub("enroll", tmp_path / "t", *keys, "--renew", tmp_path / "x", "--countersign")
    assert (ran.status, "run --renew, then --countersign" in ran.err) == (2, True)
    ran = hubbub("keys", "revoke", tmp_path / "operator.toml", "0123")
    assert (ran.status, "a device must be 32 lower-case hex digits" in ran.err) == (2, True)
    ran = hubbub("keys", "revoke", tmp_path / "operator.toml")
    assert (ran.status, "name devices to revoke" in ran.err) == (2, True)
    (tmp_path / "revoked.txt").write_text("# none yet\n")
    ran = hubbub("keys", "revoke", tmp_path / "operator.toml", "--tickets", tmp_path / "revoked.txt")
    assert (ran.status, "revoked.txt has neither tickets nor ids of devices" in ran.err) == (2, True)


DRAFT = Draft(
    "kiosks",
    Schedule(int(time.time()), length=HOUR, grace=HOUR, rounds=1, close="operator"),
    20,
    Privacy(epsilon=10.0, delta=1e-2, epsilon_local=16.0, large_delta=FEW),
    (Histogram("theme", ("dark", "light")),),
)


async def test_a_round_of_enrolled_devices_through_a_flood_a_rotation_and_a_revocation(tmp_path: Path) -> None:
    async with asyncio.timeout(PATIENCE), LocalPipeline(DRAFT, tmp_path / "pipeline") as pipeline:
        folder = pipeline.folder.of("operator")
        operator = folder / "operator.toml"
        addresses = {"shuffler_control": pipeline.services[Role.SHUFFLER].addresses["control"]}
        addresses["analyzer_results"] = pipeline.services[Role.ANALYZER].addresses["results"]
        text = operator.read_text()
        for name, port in (("shuffler_control", "7302"), ("analyzer_results", "7402")):
            text = text.replace(f'{name} = "127.0.0.1:{port}"', f'{name} = "{addresses[name]}"')
        operator.write_text(text)

        async def keys(*words: str | Path) -> Ran:
            ran = await asyncio.to_thread(hubbub, "keys", *words, "--json")
            assert ran.status == 0, ran.err
            return ran

        assert await flood(pipeline, 300) == {Reason.NOT_ENROLLED}
        for number in range(20):
            async with pipeline.device(f"kiosk {number}") as device:
                await device.submit({"theme": "dark"})
            step = {4: "add", 9: "activate", 14: "remove"}.get(number)
            if step is not None:
                await keys(step, "master", operator)
        found = (await keys("list", operator)).json
        masters = [key for key in found["keys"] if key["kind"] == "master"]
        assert [(key["name"], key["state"]) for key in masters] == [("2", "active")]
        lost, longer = tmp_path / "lost.json", tmp_path / "longer.json"
        lost.write_bytes(pipeline.ticket("lost"))
        renew = ("enroll", longer, "--renew", lost, "--days", "700", "--key", folder / "identity.pem")
        assert (await asyncio.to_thread(hubbub, *renew)).status == 0
        revoked = (await keys("revoke", operator, "--tickets", lost)).json
        assert revoked == {"devices_given": 1, "tickets_redeemed": 20, "devices_revoked": 1}
        for ticket in (lost, longer):
            pipeline._tickets["lost"] = ticket.read_bytes()
            async with pipeline.device("lost") as device:
                with pytest.raises(Refusal) as refused:
                    await device.submit({"theme": "light"})
            assert refused.value.reason is Reason.REVOKED
        status = await pipeline.close_round()
        assert (status.submissions, status.refusals["not_enrolled"]) == (20, 300)
        results = await pipeline.results()
        assert [query.valid for query in results.queries] == [20]
        body = json.loads(results.certificate)["body"]
        assert body["admission"]["mode"] == "enrolled"
        assert {batch["body"]["admission"] for batch in body["batches"]} == {"enrolled"}
        (tmp_path / "certificate.json").write_bytes(results.certificate)
        shown = await asyncio.to_thread(hubbub, "verify", tmp_path / "certificate.json")
        assert shown.status == 0
        assert "admission: enrolled. Each device" in shown.out
        assert "if the honest share was assumed rightly" not in shown.out


async def flood(pipeline: LocalPipeline, count: int) -> set[Reason]:
    """Anonymous submissions of the right size, as somebody sends who knows the task; return why they were refused."""
    task = pipeline.task.task
    async with open_channel(pipeline.shuffler, TLS(pipeline.authority)) as channel:
        caller = SubmissionCaller(channel)
        keys = await Retrying().retry(partial(caller.get_round, task.id, 0))
        size = outer_bytes(task.inner_bytes)
        made = [Submission(os.urandom(16), os.urandom(size)) for _ in range(count)]
        answers = await caller.submit_batch(Destination(task.id, 0, keys.hash), made, CALL_SECONDS)
    return {answer.reason for answer in answers if isinstance(answer, Refusal)}


async def test_an_open_task_takes_whoever_comes_and_everything_says_that_its_numbers_are_assumed(
    tmp_path: Path,
) -> None:
    async with (
        asyncio.timeout(PATIENCE),
        LocalPipeline(replace(DRAFT, admission=OPEN), tmp_path / "pipeline") as pipeline,
    ):
        for number in range(20):
            async with pipeline.device(f"kiosk {number}") as device:
                await device.submit({"theme": "dark"})
        await pipeline.close_round()
        results = await pipeline.results()
        body = json.loads(results.certificate)["body"]
        assert body["admission"]["mode"] == "open"
        assert body["ladder"]["epsilon_upper"].endswith("; nobody checked who submitted, so that is assumed")
        (tmp_path / "certificate.json").write_bytes(results.certificate)
    shown = hubbub("verify", tmp_path / "certificate.json")
    assert shown.status == 0
    assert "admission: open. Nobody checked who submitted" in shown.out
    ran = hubbub("verify", tmp_path / "certificate.json", "--json")
    assert ran.json["admission"]["mode"] == "open"
