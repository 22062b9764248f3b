"""In a process whose threads do not run beside each other, what keeps them from it is named."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest

from hubbub.protos.errors import UsageError
from hubbub.protos.transport.host_process import checked_host
from support.patience import PATIENCE

MADE = """
from hubbub.client import Gateway
from hubbub.protos.errors import UsageError
from hubbub.deploy.pki.authority import Authority
from pathlib import Path
import sys, tempfile
with tempfile.TemporaryDirectory() as folder:
    Authority.generate().save_certificate(path := Path(folder, "authority.pem"))
    try:
        Gateway(shuffler="localhost:1", authority=path)
        print("made")
    except UsageError as error:
        print(error)
"""


def said_after(before: str) -> str:
    """What making a gateway prints in a process that begins so."""
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", before + MADE],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    return ran.stdout.strip()


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("before", "says"),
    [
        ("from gevent import monkey; monkey.patch_all()\n", "gevent has replaced threading in this process"),
        ("from gevent import monkey; monkey.patch_select()\n", "gevent has replaced select"),
        ("from gevent import monkey; monkey.patch_queue()\n", "gevent has replaced queue"),
        ("import eventlet; eventlet.monkey_patch()\n", "eventlet has replaced thread in this process"),
        ("import gevent, eventlet\n", "made"),
    ],
)
def test_who_has_replaced_threads_is_named_and_who_has_not_is_no_hindrance(before: str, says: str) -> None:
    assert said_after(before).startswith(says)


@pytest.mark.parametrize(
    ("options", "fits"),
    [
        ({b"http": b":8080"}, False),
        ({"http": ":8080", "enable-threads": True}, True),
        ({b"threads": b"4"}, True),
        ({b"enable-threads": True}, True),
    ],
)
def test_uwsgi_without_threads_is_named(
    options: dict[object, object], fits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The module is there in uWSGI's own processes only; its options are texts or bytes, by version."""
    monkeypatch.setitem(sys.modules, "uwsgi", SimpleNamespace(opt=options))  # type: ignore[arg-type] # as a module
    if fits:
        checked_host()
        return
    with pytest.raises(UsageError, match=r"uWSGI runs this process without threads.*set enable-threads"):
        checked_host()
