"""A reader that was revoked may not look from the next call on; others, and a later certificate, may."""

from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from hubbub.deploy.pki.authority import Authority
from hubbub.protos.errors import SettingsError
from hubbub.protos.refusals import Reason, Refusal
from hubbub.protos.transport.revoked_readers import write_revoked
from hubbub.service.rpc.revoked_readers import RevokedReaders


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, int]:
    """A reader's certificate, and when its validity begins."""
    folder = tmp_path_factory.mktemp("reader")
    made = Authority.generate().issue("reader:ana", (), folder / "reader.pem", folder / "reader.key")
    return (folder / "reader.pem").read_bytes(), int(made.not_before.timestamp())


def test_the_file_is_looked_at_again_at_each_call(tmp_path: Path, certificate: tuple[bytes, int]) -> None:
    pem, begins = certificate
    path = tmp_path / "revoked-readers.txt"
    readers = RevokedReaders(path)
    readers.check("reader:ana", pem)
    with capture_logs() as logged:
        path.write_text(write_revoked({"reader:ana": begins + 1, "reader:ben": begins}))
        with pytest.raises(Refusal, match="this certificate of reader:ana was revoked") as refused:
            readers.check("reader:ana", pem)
        assert refused.value.reason is Reason.NOT_ALLOWED
        readers.check("reader", pem)
        # Ben's begins at that time, so it was made after he was revoked.
        readers.check("reader:ben", pem)
        path.unlink()
        readers.check("reader:ana", pem)
    assert [(each["event"], each["readers"]) for each in logged] == [
        ("revoked readers taken", 2),
        ("revoked readers taken", 0),
    ]


@pytest.mark.parametrize("content", [b"reader:ana\n", b"\xff"], ids=["no list", "no text"])
def test_a_list_that_cannot_be_read_lets_no_reader_look(
    tmp_path: Path, certificate: tuple[bytes, int], content: bytes
) -> None:
    path = tmp_path / "revoked-readers.txt"
    path.write_text("")
    readers = RevokedReaders(path)
    path.write_bytes(content)
    with capture_logs() as logged:
        for _ in range(2):
            with pytest.raises(Refusal, match="cannot read its list of revoked readers; have its party mend the file"):
                readers.check("reader:ben", certificate[0])
    assert [each["event"] for each in logged] == ["revoked readers cannot be read"]
    with pytest.raises(SettingsError, match=f"revoked_readers: {path}: "):
        RevokedReaders(path)
    path.write_text("# mended\n")
    readers.check("reader:ben", certificate[0])


def test_a_folder_in_its_place_is_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=f"revoked_readers: cannot read {tmp_path}"):
        RevokedReaders(tmp_path)
