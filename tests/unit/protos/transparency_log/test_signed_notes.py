"""Notes are C2SP's: known ones are read and verified, and nothing in one is ignored."""

from __future__ import annotations

import pytest

from hubbub.protos.identity.documents import sign
from hubbub.protos.transparency_log.signed_notes import (
    LONGEST_NOTE,
    MOST_SIGNATURES,
    LogError,
    NoteKey,
    NoteRole,
    NoteSignature,
    note_of,
    read_note,
    sign_note,
)
from support.transparency_logs import LOG, LOG_KEY, NOW, WEAK_KEYS, WITNESS_KEYS, WITNESSES

TEXT = "stats.example/log\n0\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n"

GO_KEY = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
GO_NOTE = """\
If you think cryptography is the answer to your problem,
then you don't know what your problem is.

\u2014 PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=
""".encode()
"""The example of the package golang.org/x/mod/sumdb/note, which the form comes from."""


def test_the_note_that_the_form_s_first_package_shows_is_verified() -> None:
    key = NoteKey.decode(GO_KEY, NoteRole.LOG)
    text, (signature,) = read_note(GO_NOTE)
    assert signature.is_of(key)
    assert signature.check(key, text) is None
    assert note_of(text, [signature]) == GO_NOTE
    with pytest.raises(LogError, match=r"the signature of log PeterNeumann is wrong"):
        signature.check(key, text.replace("answer", "problem"))


def test_a_key_is_read_as_it_was_written_and_in_no_other_form() -> None:
    for key, role in ((LOG_KEY, NoteRole.LOG), (WITNESS_KEYS[0], NoteRole.WITNESS)):
        text = key.encode()
        assert NoteKey.decode(f" {text}\n", role) == key
        for place in range(len(text)):
            for letter in "A!+ \u00e9":
                changed = text[:place] + letter + text[place + 1 :]
                if changed.strip() != text:
                    with pytest.raises(LogError, match=r"is not the key of a"):
                        NoteKey.decode(changed, role)
    with pytest.raises(LogError, match=r"is the key of a witness, not of a log; give the other one"):
        NoteKey.decode(WITNESS_KEYS[0].encode(), NoteRole.LOG)


@pytest.mark.parametrize("public", WEAK_KEYS.values(), ids=list(WEAK_KEYS))
def test_a_key_that_anybody_can_sign_with_is_refused(public: str) -> None:
    for role in NoteRole:
        weak = NoteKey("w.example", role, bytes.fromhex(public))
        # R is the neutral point, and s is 0: right for every text, or for one in eight at least.
        forged = bytes([1]) + bytes(63)
        made = NoteSignature(weak.name, weak.id, forged if role is NoteRole.LOG else bytes(8) + forged)
        assert any(_is_right(made, weak, f"{TEXT}{number}") for number in range(400))
        with pytest.raises(LogError, match=rf"is weak, .*have the {role.word} make another with `hubbub identity`"):
            NoteKey.decode(weak.encode(), role)


def _is_right(signature: NoteSignature, key: NoteKey, text: str) -> bool:
    try:
        signature.check(key, text)
    except LogError:
        return False
    return True


def test_a_key_beside_the_weak_ones_is_read() -> None:
    """The base point's own, as it stands in RFC 8032, and the largest y of a point of prime order, p - 9."""
    for public in ("58" + "66" * 31, "e4" + "ff" * 30 + "7f"):
        key = NoteKey("w.example", NoteRole.WITNESS, bytes.fromhex(public))
        assert NoteKey.decode(key.encode(), NoteRole.WITNESS) == key


@pytest.mark.parametrize("name", ["", "a b", "a+b", "\u00fc", "a\n", "a\u2028b", "x" * 201])
def test_a_name_with_spaces_or_plus_signs_is_refused(name: str) -> None:
    with pytest.raises(LogError, match=r"is no name of a log or a witness; give one such as"):
        NoteKey(name, NoteRole.LOG, bytes(32))


def test_a_witness_s_signature_states_its_time() -> None:
    key = WITNESS_KEYS[0]
    signature = sign_note(TEXT, key, WITNESSES[0], NOW)
    assert signature.check(key, TEXT) == NOW
    later = NoteSignature(key.name, key.id, (NOW + 1).to_bytes(8, "big") + signature.signature[8:])
    with pytest.raises(LogError, match=r"the signature of witness w0.example is wrong"):
        later.check(key, TEXT)
    never = NoteSignature(key.name, key.id, (2**63).to_bytes(8, "big") + signature.signature[8:])
    with pytest.raises(LogError, match=r"is wrong"):
        never.check(key, TEXT)


def test_no_signature_is_valid_in_another_role_or_as_that_of_a_document() -> None:
    log, witness = LOG_KEY, NoteKey(LOG_KEY.name, NoteRole.WITNESS, LOG.public)
    as_log, as_witness = sign_note(TEXT, log, LOG).signature, sign_note(TEXT, witness, LOG, NOW).signature
    document = sign("hubbub-task/1", TEXT.encode(), LOG.key)
    for key, content in (
        (log, as_witness[8:]),
        (witness, bytes(8) + as_log),
        (log, document),
        (witness, as_witness[:8] + document),
    ):
        with pytest.raises(LogError, match=r"is wrong"):
            NoteSignature(key.name, key.id, content).check(key, TEXT)


LINE = sign_note(TEXT, LOG_KEY, LOG).line()


@pytest.mark.parametrize(
    "note",
    [
        b"",
        b"\n",
        b"text only\n",
        f"{TEXT}\n".encode(),
        f"{TEXT}{LINE}".encode(),
        f"{TEXT}\n{LINE}".encode()[:-1],
        f"{TEXT}\n{LINE}\n".encode(),
        f"{TEXT}\n{LINE} ".encode(),
        f"{TEXT}\n{LINE.replace(' ', '  ', 1)}".encode(),
        f"{TEXT}\n{LINE.replace('=', '')}".encode(),
        f"{TEXT}\n{LINE[2:]}".encode(),
        f"{TEXT}\n\u2014 name AAAA\n".encode(),
        f"{TEXT}\n\u2014 na+me AAAAAAAA\n".encode(),
        f"{TEXT}\n\u2014 na\u2028me AAAAAAAA\n".encode(),
        f"{TEXT}\n\u2014  AAAAAAAA\n".encode(),
        f"{TEXT}\n{LINE * (MOST_SIGNATURES + 1)}".encode(),
        f"{TEXT}\n{LINE}".encode() + b"\xff",
        b"x" * LONGEST_NOTE + f"\n\n{LINE}".encode(),
    ],
)
def test_what_is_no_note_is_refused(note: bytes) -> None:
    with pytest.raises(LogError, match=r"not a signed checkpoint: .*; give the file as the log has it"):
        read_note(note)


def test_base64_with_spare_bits_is_no_signature_line() -> None:
    line = "\u2014 name AAAAAAA=\n"
    assert read_note(f"{TEXT}\n{line}".encode())[1][0].signature == b"\0"
    with pytest.raises(LogError, match=r"not base64 in its one form"):
        read_note(f"{TEXT}\n{line.replace('A=', 'B=')}".encode())
