"""A checkpoint is one text, and counts for something only with the signatures of those whom a reader knows."""

from __future__ import annotations

import pytest

from hubbub.protos.merkle import EMPTY_ROOT
from hubbub.protos.transparency_log.checkpoint import MOST_LOGGED, Checkpoint, SignedCheckpoint, TrustedLog
from hubbub.protos.transparency_log.signed_notes import LogError, NoteKey, NoteRole, sign_note
from support.messages import HAS_NOT_SIGNED_CHECKPOINT, TOO_FEW_WITNESSES
from support.transparency_logs import (
    LOG,
    LOG_KEY,
    NAME,
    NOW,
    OTHER,
    TRUSTED,
    WITNESS_KEYS,
    WITNESSED,
    WITNESSES,
    with_witnesses,
)

POINT = Checkpoint(NAME, 5, b"r" * 32)
SIGNED = with_witnesses(SignedCheckpoint.made(POINT, LOG))


def test_a_checkpoint_is_read_as_it_was_written() -> None:
    assert POINT.text == f"{NAME}\n5\ncnJycnJycnJycnJycnJycnJycnJycnJycnJycnJycnI=\n"
    assert Checkpoint.read(POINT.text) == POINT
    assert SignedCheckpoint.decode(SIGNED.encode()) == SIGNED
    assert SIGNED.check(WITNESSED) == {"w0.example": NOW, "w1.example": NOW}


@pytest.mark.parametrize("name", ["", "a b", "a+b", "log\x1b[2J", "a\rb", "\u202elog", "\u00e9", "a" * 201])
def test_a_checkpoint_of_a_name_that_no_log_has_is_refused(name: str) -> None:
    with pytest.raises(LogError, match=r"not a checkpoint: no log has the name"):
        Checkpoint.read(POINT.text.replace(NAME, name))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "name\n5\n",
        f"{NAME}\n05\ncnJycnJycnJycnJycnJycnJycnJycnJycnJycnJycnI=\n",
        f"{NAME}\n+5\ncnJycnJycnJycnJycnJycnJycnJycnJycnJycnJycnI=\n",
        f"{NAME}\n\u0665\ncnJycnJycnJycnJycnJycnJycnJycnJycnJycnJycnI=\n",
        f"{NAME}\n{'9' * 5000}\ncnJycnJycnJycnJycnJycnJycnJycnJycnJycnJycnI=\n",
        f"{NAME}\n{MOST_LOGGED + 1}\ncnJycnJycnJycnJycnJycnJycnJycnJycnJycnJycnI=\n",
        f"{NAME}\n-1\ncnJycnJycnJycnJycnJycnJycnJycnJycnJycnJycnI=\n",
        f"{NAME}\n0\ncnJycnJycnJycnJycnJycnJycnJycnJycnJycnJycnI=\n",
        f"{NAME}\n5\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n",
        f"{NAME}\n5\ncnJy\n",
        f"{NAME}\n5\nno base64\n",
        f"{NAME}\n5\ncnJycnJycnJycnJycnJycnJycnJycnJycnJycnJycnI=\nan extension\n",
        f"{NAME}\n5\ncnJycnJycnJycnJycnJycnJycnJycnJycnJycnJycnI=",
    ],
)
def test_what_is_no_checkpoint_is_refused(text: str) -> None:
    with pytest.raises(LogError, match=r"not a checkpoint.*; give the file as the log has it"):
        Checkpoint.read(text)


def test_an_empty_log_has_the_rfc_s_empty_root() -> None:
    assert Checkpoint(NAME).root == EMPTY_ROOT
    assert Checkpoint.read(Checkpoint(NAME).text).size == 0


def test_a_changed_byte_anywhere_is_refused() -> None:
    note = SIGNED.encode()
    for place in range(len(note)):
        for mask in (1, 0x20, 0x80):
            changed = note[:place] + bytes([note[place] ^ mask]) + note[place + 1 :]
            with pytest.raises(LogError):
                SignedCheckpoint.decode(changed).check(WITNESSED)


def test_a_checkpoint_of_another_log_or_key_is_refused() -> None:
    with pytest.raises(LogError, match=r"is of log 'stats.example/log', not of other.example; give the key"):
        SIGNED.check(TrustedLog(NoteKey("other.example", NoteRole.LOG, LOG.public)))
    with pytest.raises(LogError, match=rf"log stats.example/log {HAS_NOT_SIGNED_CHECKPOINT}"):
        SIGNED.check(TrustedLog(NoteKey(NAME, NoteRole.LOG, OTHER.public)))


def test_as_many_witnesses_must_have_signed_as_are_asked_for() -> None:
    three = TrustedLog(LOG_KEY, WITNESS_KEYS, 3)
    with pytest.raises(LogError, match=rf"2 {TOO_FEW_WITNESSES} the checkpoint of 5 entries, but 3 must"):
        SIGNED.check(three)
    assert set(with_witnesses(SIGNED, 3).check(three)) == {"w0.example", "w1.example", "w2.example"}
    assert set(SIGNED.check(TrustedLog(LOG_KEY, WITNESS_KEYS, 0))) == {"w0.example", "w1.example"}
    # A witness whom nobody asked for says nothing.
    assert SIGNED.check(TRUSTED) == {}


def test_a_wrong_signature_of_a_known_witness_is_refused_even_if_enough_have_signed() -> None:
    wrong = sign_note(POINT.text, WITNESS_KEYS[1], WITNESSES[2], NOW)
    with pytest.raises(LogError, match=r"the signature of witness w1.example is wrong"):
        SIGNED.with_signature(wrong).check(TrustedLog(LOG_KEY, WITNESS_KEYS, 1))


def test_a_witness_counts_once() -> None:
    again = SIGNED.witnessed(WITNESS_KEYS[0], WITNESSES[0], NOW + 60)
    assert again.check(WITNESSED)["w0.example"] == NOW + 60
    assert len(again.signatures) == len(SIGNED.signatures)
    twice = SignedCheckpoint(POINT, (*SIGNED.signatures, again.signatures[-1]))
    with pytest.raises(LogError, match=r"a key has signed the checkpoint twice"):
        SignedCheckpoint.decode(twice.encode())


ALIAS = NoteKey("w9.example", NoteRole.WITNESS, WITNESS_KEYS[0].public)
"""The first witness under another name."""
TWIN = NoteKey(WITNESS_KEYS[0].name, NoteRole.WITNESS, WITNESS_KEYS[1].public)
"""The second witness under the name of the first one."""


def test_one_key_under_two_names_counts_once() -> None:
    both = SIGNED.witnessed(ALIAS, WITNESSES[0], NOW + 60)
    assert both.check(TrustedLog(LOG_KEY, (WITNESS_KEYS[0], ALIAS), 1)) == {"w9.example": NOW + 60}
    assert both.check(TrustedLog(LOG_KEY, (ALIAS, WITNESS_KEYS[0]), 1)) == {"w9.example": NOW + 60}
    # Under either name it has signed.
    assert SIGNED.check(TrustedLog(LOG_KEY, (ALIAS, WITNESS_KEYS[0]), 1)) == {"w0.example": NOW}
    with pytest.raises(LogError, match=r"2 witnesses must have signed, but 1 are known, each by its key"):
        TrustedLog(LOG_KEY, (WITNESS_KEYS[0], ALIAS), 2)
    with pytest.raises(LogError, match=rf"1 {TOO_FEW_WITNESSES} the checkpoint of 5 entries, but 2 must"):
        both.check(TrustedLog(LOG_KEY, (WITNESS_KEYS[0], ALIAS, WITNESS_KEYS[2]), 2))
    # A key that is given twice is one, too.
    assert SIGNED.check(TrustedLog(LOG_KEY, WITNESS_KEYS[:1] * 2, 1)) == {"w0.example": NOW}


def test_two_keys_of_one_name_are_refused() -> None:
    with pytest.raises(LogError, match=r"two keys are given for witness w0.example, and one party counts once; give"):
        TrustedLog(LOG_KEY, (WITNESS_KEYS[0], TWIN), 1)
    # Each alone is known by its key, although both have signed under the name.
    both = SIGNED.witnessed(TWIN, WITNESSES[1], NOW + 60)
    assert both.check(TrustedLog(LOG_KEY, (TWIN,), 1)) == {"w0.example": NOW + 60}
    assert both.check(TrustedLog(LOG_KEY, WITNESS_KEYS[:1], 1)) == {"w0.example": NOW}


def test_a_log_is_no_witness_of_itself() -> None:
    with pytest.raises(LogError, match=r"the log's own key is given for a witness; give the keys of other parties"):
        TrustedLog(LOG_KEY, (NoteKey("w9.example", NoteRole.WITNESS, LOG.public),), 1)


def test_more_witnesses_than_are_known_cannot_be_asked_for() -> None:
    with pytest.raises(LogError, match=r"3 witnesses must have signed, but 2 are known"):
        TrustedLog(LOG_KEY, WITNESS_KEYS[:2], 3)
