"""What a PEM file holds is said where something else was expected."""

from __future__ import annotations

from pathlib import Path

import pytest

from hubbub.protos.errors import SignatureError
from hubbub.protos.identity.keys import Identity, load_public
from hubbub.protos.identity.pem import readable_by_others, what_it_is


def label(name: str) -> bytes:
    return f"-----BEGIN {name}-----\nAAAA\n-----END {name}-----\n".encode()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "an empty file"),
        (b" \n", "an empty file"),
        (b"no key", "not PEM"),
        (bytes(range(256)), "not PEM"),
        (label("CERTIFICATE"), "a certificate"),
        (label("PUBLIC KEY"), "a public key"),
        (label("EC PRIVATE KEY"), "a private key"),
        (label("ENCRYPTED PRIVATE KEY"), "a private key under a passphrase"),
        (label("PGP MESSAGE"), "PEM of another kind (PGP MESSAGE)"),
        (label("CERTIFICATE")[:40], "a certificate that was cut short"),
    ],
)
def test_a_file_is_named_by_its_first_label(content: bytes, said: str) -> None:
    assert what_it_is(content) == said


def test_one_half_of_an_identity_in_the_place_of_the_other_is_named(tmp_path: Path) -> None:
    private, public = tmp_path / "identity.pem", tmp_path / "identity.pub.pem"
    identity = Identity.generate()
    identity.save(private)
    identity.save_public(public)
    with pytest.raises(SignatureError, match=r"identity\.pub\.pem has no readable private key: it is a public key"):
        Identity.load(public)
    with pytest.raises(SignatureError, match=r"identity\.pem has no readable public key: it is a private key"):
        load_public(private)


def test_a_missing_key_is_restored_or_asked_of_its_party_and_never_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "identity.pem"
    with pytest.raises(SignatureError, match=r"identity\.pem: No such file .*; restore the private key from its copy"):
        Identity.load(path)
    with pytest.raises(SignatureError, match=r"No such file .*; get this public key from the party itself$"):
        load_public(path)
    path.write_bytes(b"")
    with pytest.raises(SignatureError, match=r"it is an empty file; restore the private key from its copy"):
        Identity.load(path)

    def refuse(_path: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(SignatureError, match="this account may not read it; give it the file with chown"):
        Identity.load(path)


@pytest.mark.parametrize(
    ("mode", "said"), [(0o600, None), (0o400, None), (0o640, "its group"), (0o444, "everyone"), (0o660, "its group")]
)
def test_a_private_key_that_others_can_read_is_said(tmp_path: Path, mode: int, said: str | None) -> None:
    path = tmp_path / "identity.pem"
    Identity.generate().save(path)
    assert readable_by_others(path) is None
    path.chmod(mode)
    found = readable_by_others(path)
    if said is None:
        assert found is None
    else:
        assert found is not None
        assert f"open to {said} (mode {mode:04o}); run `chmod 600 {path}`" in found
