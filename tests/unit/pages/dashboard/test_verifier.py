"""The page of certificates links to the verifier for browsers where it is served, and else says how to open it."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from hubbub.pages.dashboard.access import HEADERS
from hubbub.pages.dashboard.verifier import ADDRESS, LARGEST_PAGE, VerifierPage, verifier_in
from hubbub.protos.errors import UsageError
from support.cli import hubbub_here
from support.dashboard import Browser, site_of, stub

SCRIPT, STYLE = "document.title = 'é';\n", "p { color: red }"


def page_of(script: str = SCRIPT, policy_of: str = SCRIPT, before: str = "") -> bytes:
    """A page in the form that the build gives it, with the digest of `policy_of` in its policy."""
    digests = [f"'sha256-{_digest(each)}'" for each in (policy_of, STYLE)]
    policy = (
        f"default-src 'none'; script-src {digests[0]}; style-src {digests[1]}; base-uri 'none'; form-action 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    )
    meta = f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    return f"<!doctype html>{meta}{before}<style>{STYLE}</style><script>{script}</script>".encode()


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def read(folder: Path, content: bytes) -> VerifierPage:
    file = folder / "index.html"
    file.write_bytes(content)
    return verifier_in(file)


def browser_of(verifier: VerifierPage | None, known: bool = True) -> Browser:
    return Browser(replace(site_of(stub()), verifier=verifier), known=known)


def test_where_it_is_served_the_page_of_certificates_links_to_it(tmp_path: Path) -> None:
    browser = browser_of(read(tmp_path, page_of()))
    assert f'<a href="{ADDRESS}">' in browser.get("/certificate").text
    seen = browser.get(ADDRESS)
    assert (seen.status, seen.content) == (200, page_of())
    assert seen.headers["content-type"] == "text/html; charset=utf-8"


def test_it_has_an_origin_of_its_own_and_its_own_script_alone(tmp_path: Path) -> None:
    page = read(tmp_path, page_of())
    headers = browser_of(page).get(ADDRESS).headers
    assert headers["content-security-policy"] == (
        f"{page.policy}; frame-ancestors 'none'; sandbox allow-scripts allow-forms"
    )
    assert f"script-src 'sha256-{_digest(SCRIPT)}';" in page.policy
    others = HEADERS.keys() - {"Content-Security-Policy"}
    assert {name: headers[name] for name in others} == {name: HEADERS[name] for name in others}


def test_all_other_answers_have_the_headers_of_pages_without_a_script(tmp_path: Path) -> None:
    page = read(tmp_path, page_of())
    seen = [browser_of(page).get(path) for path in ("/", "/certificate", "/nothing")]
    refused = browser_of(page, known=False).get(ADDRESS)
    posted = browser_of(page).post(ADDRESS, {})
    assert (refused.status, posted.status) == (403, 405)
    for each in (*seen, refused, posted):
        assert {name: each.headers[name] for name in HEADERS} == HEADERS


def test_where_it_is_not_served_the_page_says_how_to_open_it() -> None:
    browser = browser_of(None)
    words = " ".join(browser.get("/certificate").page.words.split())
    assert "npm ci && npm run build in the folder clients/typescript makes it: open dist/verify/index.html" in words
    assert browser.get(ADDRESS).status == 404


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (page_of(script=SCRIPT + " "), "was changed: its policy does not allow"),
        (page_of(before="<script>1</script>"), "was changed: its policy does not allow"),
        (page_of().replace(b"form-action 'none'", b"form-action *"), "was changed: its policy does not allow"),
        (page_of() + page_of(), "was changed: its policy does not allow"),
        (b"<!doctype html>", "is not the verifier's page"),
        (b"\xff", "cannot be read"),
        (page_of() + b" " * LARGEST_PAGE, "has more than 4 MiB"),
    ],
    ids=["another script", "two scripts", "another policy", "two pages", "no policy", "no text", "too large"],
)
def test_another_file_is_not_served(tmp_path: Path, content: bytes, problem: str) -> None:
    with pytest.raises(UsageError, match=problem) as refused:
        read(tmp_path, content)
    assert "in clients/typescript, `npm ci && npm run build` makes it" in str(refused.value)


def test_the_command_refuses_a_file_that_is_not_there(tmp_path: Path) -> None:
    ran = hubbub_here("dashboard", tmp_path / "results.json", "--verifier", tmp_path / "index.html")
    assert ran.status == 2
    assert "index.html: the file cannot be read: " in " ".join(ran.err.split())
