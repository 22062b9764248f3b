"""What a device remembers, for how long, and that nothing of it is lost or kept too long."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hubbub.client import KeySetChanged, NoRound, PrivacyLimits, StateError
from hubbub.client.state.longitudinal import MemoryUpdate
from hubbub.client.state.rounds import DONE, Drawn, RoundRef, StoredSubmission, SubmissionHistory
from hubbub.client.state.store import Seen, State, waiting_until
from hubbub.protos.messages import Submission
from hubbub.protos.task.task import Task
from support.charges import BILL, answer_cost
from support.fake_shuffler import FakeShuffler
from support.messages import OTHER_KIND_OF_FILE
from support.samples import Parties

OVER_AT = 1000.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.sqlite"


@pytest.fixture
def state(path: Path) -> Iterator[State]:
    state = State(path)
    yield state
    state.close()


@pytest.fixture
def fake(task: Task, parties: Parties) -> FakeShuffler:
    return FakeShuffler(task, parties)


@pytest.fixture
def of(state: State, fake: FakeShuffler) -> RoundRef:
    """Round 1, its keys pinned."""
    of = RoundRef(fake.task.id, 1)
    state.pin(of, fake.keys(1)[2], OVER_AT)
    return of


def submission() -> Submission:
    return Submission(os.urandom(16), os.urandom(152))


def test_what_was_kept_is_found_by_another_process(state: State, path: Path, of: RoundRef) -> None:
    sent = submission()
    state.keep(of, {"": sent}, BILL)
    other = State(path)
    assert other.find(of, [""]) == {"": StoredSubmission(sent.id, sent.envelope, None)}
    assert other.find(of, [""])[""].submission == sent
    other.close()


ANOTHER = """
import sys
from pathlib import Path
from hubbub.client.state.rounds import RoundRef
from hubbub.client.state.store import State

state = State(Path(sys.argv[1]))
print(*state.find(RoundRef(bytes(32), 1), ["alice"]))
state.close()
"""


def test_two_states_of_one_process_do_not_undo_each_others_locks(path: Path) -> None:
    """Where a second one opened the file beside SQLite, another process took the file for unused, and cut its log."""

    def seen_by_another_process() -> str:
        ran = subprocess.run([sys.executable, "-c", ANOTHER, path], capture_output=True, text=True, check=True)
        return ran.stdout.strip()

    of, first, second = RoundRef(bytes(32), 1), State(path), State(path)
    first.forget(0.0)
    second.forget(0.0)
    assert seen_by_another_process() == ""
    first.keep_reports(of, "alice", Drawn(bytes(16), b"reports"), OVER_AT, BILL)
    assert seen_by_another_process() == "alice"
    first.close()
    second.close()


def test_the_first_submission_of_a_device_stays(state: State, of: RoundRef) -> None:
    first, second, other = submission(), submission(), submission()
    state.keep(of, {"a": first}, BILL)
    kept, _ = state.keep(of, {"a": second, "b": other}, BILL)
    assert {device: entry.submission for device, entry in kept.items()} == {"a": first, "b": other}


def test_settled_submissions_lose_their_bytes_and_keep_their_id(state: State, path: Path, of: RoundRef) -> None:
    one, two = submission(), submission()
    state.keep(of, {"a": one, "b": two}, BILL)
    state.settle(of, {"a": DONE, "b": "too_late"})
    entries = state.find(of, ["a", "b", "c"])
    assert entries == {"a": StoredSubmission(one.id, None, DONE), "b": StoredSubmission(two.id, None, "too_late")}
    assert entries["a"].submission is None
    state.close()
    assert one.envelope not in path.read_bytes()
    assert two.envelope not in path.read_bytes()


def test_waiting_names_rounds_that_are_not_settled(state: State, fake: FakeShuffler) -> None:
    for number in range(3):
        of = RoundRef(fake.task.id, number)
        state.pin(of, fake.keys(number)[2], OVER_AT)
        state.keep(of, {"": submission()}, BILL)
    state.settle(RoundRef(fake.task.id, 1), {"": DONE})
    assert state.waiting(fake.task.id, "") == [0, 2]
    assert state.waiting(fake.task.id, "other") == []


def test_a_round_has_one_key_set(state: State, of: RoundRef, fake: FakeShuffler) -> None:
    assert state.key_set(of) == fake.keys(1)[2]
    state.pin(of, fake.keys(1)[2], OVER_AT)
    fake.rotate(1)
    with pytest.raises(KeySetChanged, match=r"it was first seen with .* report it to the operator"):
        state.pin(of, fake.keys(1)[2], OVER_AT)
    assert state.key_set(RoundRef(of.task_id, 2)) is None


def test_a_look_finds_all_that_an_answer_needs(state: State, of: RoundRef, fake: FakeShuffler) -> None:
    seen = state.look(of, "a", 0.0, BILL, memory=True)
    assert seen == Seen(None, fake.keys(1)[2], opted_out=False, refusal=None, memory=None)
    assert state.look(RoundRef(of.task_id, 2), "a", 0.0, BILL, memory=True).key_set is None
    drawn = Drawn(os.urandom(16), b"reports")
    kept = state.keep_reports(of, "a", drawn, OVER_AT, BILL, MemoryUpdate(None, {"q": {"period": 1}}, OVER_AT), 7.0)
    assert kept == StoredSubmission(drawn.submission_id, None, None, b"reports", 7.0)
    assert state.stored(of, "a") == (kept, fake.keys(1)[2])
    assert state.stored(of, "b") == (None, fake.keys(1)[2])
    seen = state.look(of, "a", 0.0, BILL, memory=True)
    assert (seen.entry, seen.memory) == (kept, '{"q":{"period":1}}')
    assert state.look(of, "a", 0.0, BILL, memory=False).memory is None
    state.opt_out("a")
    assert state.look(of, "a", 0.0, BILL, memory=True).opted_out
    assert not state.look(of, "b", 0.0, BILL, memory=True).opted_out


def test_a_look_says_what_limit_a_round_would_pass_where_it_is_not_answered(state: State, of: RoundRef) -> None:
    strict = answer_cost(limits=PrivacyLimits(epsilon_local_per_day=1.0))
    refusal = state.look(of, "a", 0.0, strict, memory=False).refusal
    assert refusal is not None
    assert refusal.limit == "epsilon_local_per_day"
    state.keep(of, {"a": submission()}, BILL)
    assert state.look(of, "a", 0.0, strict, memory=False).refusal is None


def test_a_look_forgets_rounds_that_are_over_with_their_bytes(state: State, path: Path, of: RoundRef) -> None:
    sent = submission()
    state.keep(of, {"": sent}, BILL)
    assert state.look(of, "", OVER_AT, BILL, memory=False).entry is not None
    assert state.look(of, "", OVER_AT + 1, BILL, memory=False).entry is None
    assert state.last_forgotten(of.task_id) == 1
    for file in path.parent.iterdir():
        assert sent.envelope not in file.read_bytes(), file


def test_a_round_that_is_over_is_forgotten_with_its_bytes(state: State, path: Path, of: RoundRef) -> None:
    sent = submission()
    state.keep(of, {"": sent}, BILL)
    assert state.forget(OVER_AT) == 0
    assert state.find(of, [""])
    assert state.forget(OVER_AT + 1) == 1
    assert state.find(of, [""]) == {}
    for file in path.parent.iterdir():
        content = file.read_bytes()
        assert sent.envelope not in content, file
        assert sent.id not in content, file


def test_a_clock_that_runs_backwards_brings_no_round_back(state: State, of: RoundRef, fake: FakeShuffler) -> None:
    state.forget(OVER_AT + 1)
    with pytest.raises(NoRound, match="round 1 is over on this device, the last forgotten round is 1"):
        state.key_set(of)
    with pytest.raises(NoRound):
        state.pin(of, fake.keys(1)[2], OVER_AT)
    with pytest.raises(NoRound):
        state.key_set(RoundRef(of.task_id, 0))
    assert state.key_set(RoundRef(of.task_id, 2)) is None
    assert state.key_set(RoundRef(b"o" * 32, 0)) is None


def test_nothing_is_kept_for_a_round_without_keys(state: State) -> None:
    with pytest.raises(NoRound, match="nothing more is stored for it"):
        state.keep(RoundRef(b"t" * 32, 0), {"": submission()}, BILL)


def test_settling_what_was_forgotten_changes_nothing(state: State, of: RoundRef) -> None:
    state.keep(of, {"": submission()}, BILL)
    state.forget(OVER_AT + 1)
    state.settle(of, {"": DONE})
    assert state.find(of, [""]) == {}


def test_the_file_is_its_owners_alone_and_every_commit_is_synced(state: State, path: Path, of: RoundRef) -> None:
    for file in path.parent.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
    connection = state._connection
    assert connection is not None
    settings = {name: connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("synchronous", "journal_mode")}
    assert settings == {"synchronous": 2, "journal_mode": "wal"}


def test_another_programs_file_is_refused_untouched(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE other (x)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StateError, match="is no state file of hubbub"):
        State(path).forget(0)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("missing/state.sqlite", "its folder does not exist"),
        (".", "it is a folder"),
        ("n" * 300, "File name too long; give it a shorter name"),
        ("n" * 300 + "/state.sqlite", "File name too long; give it a shorter name"),
    ],
)
def test_a_path_that_cannot_be_used_is_named(tmp_path: Path, place: str, why: str) -> None:
    with pytest.raises(StateError, match=f"cannot use the state file .*{why}"):
        State(tmp_path / place).forget(0)


def test_a_link_to_a_file_that_is_not_there_is_named_with_that_file(tmp_path: Path) -> None:
    link, target = tmp_path / "state.sqlite", tmp_path / "volume.sqlite"
    link.symlink_to(target)
    with pytest.raises(StateError, match=f"is a link to {target}, where there is no file; make an empty file there"):
        State(link).forget(0)
    target.touch()
    State(link).forget(0)


def test_a_damaged_file_is_named(path: Path) -> None:
    path.write_bytes(b"not a database, but long enough to look like one" * 50)
    with pytest.raises(StateError, match=rf"{OTHER_KIND_OF_FILE} \(state file\)"):
        State(path).forget(0)


def test_a_file_that_another_program_holds_is_told_as_that(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    State(path).forget(0.0)
    monkeypatch.setattr("hubbub.client.state.file.BUSY_SECONDS", 0.05)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StateError, match=r"in use by another program for 0\.05 s .* end that program, or try again"):
        State(path).forget(0.0)
    other.close()


def test_a_failed_commit_stores_nothing_and_says_so(state: State, of: RoundRef) -> None:
    connection = state._connection
    assert connection is not None
    connection.execute(f"PRAGMA max_page_count = {connection.execute('PRAGMA page_count').fetchone()[0]}")
    with pytest.raises(StateError, match="disk"):
        state.keep(of, {str(number): submission() for number in range(1000)}, BILL)
    assert state.find(of, [str(number) for number in range(1000)]) == {}


@pytest.mark.parametrize("attempt", range(5))
def test_connections_that_open_and_keep_at_once_agree(path: Path, fake: FakeShuffler, attempt: int) -> None:
    of, key_set = RoundRef(fake.task.id, 1), fake.keys(1)[2]
    results: list[StoredSubmission] = []
    start = threading.Barrier(16)

    def work() -> None:
        state = State(path)
        start.wait()
        state.pin(of, key_set, OVER_AT)
        results.append(state.keep(of, {"": submission()}, BILL)[0][""])
        state.close()

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 16
    assert len(set(results)) == 1


def test_what_was_sealed_is_counted_when_it_is_forgotten_and_what_was_not_is_told_apart(state: State) -> None:
    for number in range(3):
        state.keep_reports(RoundRef(b"t" * 32, number), "a", Drawn(os.urandom(16), b"reports"), 10.0 * number, BILL)
    of = RoundRef(b"t" * 32, 1)
    (entry,) = state.find(of, ["a"]).values()
    state.seal(of, {"a": Submission(entry.submission_id, b"sealed")})
    assert state.history(b"t" * 32, "a") == SubmissionHistory(3, 1, 0)
    state.forget(15.0)
    assert state.history(b"t" * 32, "a") == SubmissionHistory(3, 1, 2)
    state.settle(RoundRef(b"t" * 32, 2), {"a": DONE})
    state.forget(100.0)
    assert state.history(b"t" * 32, "a") == SubmissionHistory(3, 1, 2), "an acknowledged one has not expired"
    assert state.history(b"t" * 32, "b") == SubmissionHistory(0, 0, 0)


def test_what_expired_is_returned_once_by_whichever_process_asks_first(state: State, path: Path) -> None:
    for number in range(3):
        state.keep_reports(RoundRef(b"t" * 32, number), "a", Drawn(os.urandom(16), b"reports"), 10.0 * number, BILL)
    assert state.take_expired(b"t" * 32, "a") == 0
    state.forget(15.0)
    other = State(path)
    assert (other.take_expired(b"t" * 32, "a"), state.take_expired(b"t" * 32, "a")) == (2, 0)
    assert state.take_expired(b"t" * 32, "b") == 0
    state.forget(100.0)
    assert state.take_expired(b"t" * 32, "a") == 1
    other.close()


def test_who_may_not_wait_gives_a_locked_file_up_and_others_wait_on(state: State, path: Path) -> None:
    """By the time that each connection was told to wait, as SQLite has it: nothing here is measured."""
    other = sqlite3.connect(path, isolation_level=None)
    state.forget(0.0)
    other.execute("BEGIN IMMEDIATE")
    with waiting_until(time.monotonic()), pytest.raises(StateError, match="in use by another program for 0 s"):
        state.forget(0.0)
    connection = state._connection
    assert connection is not None
    assert connection.execute("PRAGMA busy_timeout").fetchone() == (30_000,)
    other.execute("ROLLBACK")
    other.close()
    with waiting_until(time.monotonic()):
        assert state.forget(0.0) == 0, "a file that nobody uses needs no waiting"
        # Another thread of this process has it: not even closing waits.
        with state._lock:
            state.close()
            with pytest.raises(StateError, match="a thread of this program"):
                state.forget(0.0)
            with pytest.raises(StateError, match="a thread of this program"):
                state.empty_log()
        assert state._connection is connection
        state.close()
    assert state._connection is None


def test_reports_are_overwritten_once_they_are_sealed(state: State, path: Path) -> None:
    of, drawn = RoundRef(b"t" * 32, 1), Drawn(os.urandom(16), os.urandom(40))
    state.keep_reports(of, "a", drawn, OVER_AT, BILL)
    assert any(drawn.reports in file.read_bytes() for file in path.parent.iterdir())
    sealed = Submission(drawn.submission_id, os.urandom(100))
    assert state.seal(of, {"a": sealed, "b": submission()}) == {"a": StoredSubmission(sealed.id, sealed.envelope, None)}
    for file in path.parent.iterdir():
        assert drawn.reports not in file.read_bytes(), file


def test_sealed_bytes_are_overwritten_once_they_are_settled(state: State, path: Path) -> None:
    of, sealed = RoundRef(b"t" * 32, 1), Submission(os.urandom(16), os.urandom(100))
    state.keep_reports(of, "a", Drawn(sealed.id, os.urandom(40)), OVER_AT, BILL)
    state.seal(of, {"a": sealed})
    assert any(sealed.envelope in file.read_bytes() for file in path.parent.iterdir())
    state.settle(of, {"a": DONE})
    state.empty_log()
    for file in path.parent.iterdir():
        assert sealed.envelope not in file.read_bytes(), file


def test_the_first_seal_of_the_same_reports_stays(state: State) -> None:
    of, drawn = RoundRef(b"t" * 32, 1), Drawn(os.urandom(16), b"reports")
    state.keep_reports(of, "a", drawn, OVER_AT, BILL)
    first = Submission(drawn.submission_id, b"first")
    for one in (first, Submission(drawn.submission_id, b"second"), Submission(os.urandom(16), b"other")):
        assert state.seal(of, {"a": one})["a"].submission == first


def test_keys_that_are_damaged_are_named(state: State, of: RoundRef) -> None:
    connection = state._connection
    assert connection is not None
    for damaged in (b"{}", b"[]", b"not JSON", b"\xff"):
        connection.execute("UPDATE round SET key_set = ?", (damaged,))
        with pytest.raises(StateError, match="has keys of a round that cannot be read; it is damaged"):
            state.key_set(of)


def test_a_schema_that_is_damaged_is_named(path: Path) -> None:
    state = State(path)
    state.forget(0)
    state.close()
    content = path.read_bytes()
    path.write_bytes(content.replace(b"CREATE TABLE history", b"CREATE T\xffBLE history"))
    with pytest.raises(StateError, match=r"is damaged .*move it away and give the device a new ticket"):
        State(path).forget(0)


def test_a_file_that_was_cut_is_named_as_damaged_with_a_remedy(path: Path) -> None:
    state = State(path)
    state.forget(0)
    state.close()
    path.write_bytes(path.read_bytes()[:3000])
    with pytest.raises(StateError, match=r"state file .* is damaged .*move it away and give the device a new ticket"):
        State(path).forget(0)
