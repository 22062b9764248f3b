"""Who may read the pages: the token, the cookie, the name of the host, and forms of these pages alone."""

from __future__ import annotations

import pytest

from hubbub.pages.dashboard.access import HEADERS, LARGEST_BODY, TOKEN, Access
from support.dashboard import AT, Browser, Looked, site_of, stub


@pytest.fixture
def stranger() -> Browser:
    """A browser that was never let in."""
    return Browser(site_of(stub()), known=False)


@pytest.fixture
def browser() -> Browser:
    return Browser(site_of(stub()))


def assert_guarded(seen: Looked) -> None:
    assert {name: seen.headers[name] for name in HEADERS} == HEADERS


def test_the_token_gives_a_cookie_and_leaves_the_address(stranger: Browser) -> None:
    access = stranger.site.access
    answer = stranger.client.get(f"/?{TOKEN}={access.token}", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    assert access.token not in cookie
    assert stranger.get("/").status == 200


@pytest.mark.parametrize("path", ["/", "/certificate", "/plan", "/style.css", "/icon.svg", "/nothing"])
def test_without_the_cookie_nothing_is_shown(stranger: Browser, path: str) -> None:
    seen = stranger.get(path)
    assert seen.status == 403
    assert "drinks" not in seen.text
    assert_guarded(seen)


@pytest.mark.parametrize("token", ["", "x", "é", "x" * 43])
def test_a_wrong_token_is_refused_and_gives_no_cookie(stranger: Browser, token: str) -> None:
    seen = stranger.get(f"/?{TOKEN}={token}")
    assert (seen.status, "set-cookie" in seen.headers) == (403, False)
    assert stranger.get("/").status == 403


@pytest.mark.parametrize("session", ["x", "\xff"])
def test_a_wrong_cookie_is_refused(stranger: Browser, session: str) -> None:
    cookie = f"{stranger.site.access.cookie}={session}".encode("latin-1")
    assert stranger.client.get("/", headers={b"cookie": cookie}).status_code == 403


def test_another_start_has_other_secrets() -> None:
    one, two = Access.at("127.0.0.1", 1), Access.at("127.0.0.1", 1)
    assert len({one.token, one.session, one.word, two.token, two.session, two.word}) == 6


@pytest.mark.parametrize("name", ["evil.example", "evil.example:8737", "127.0.0.1.evil.example", "", "[", "127.0.0.2"])
def test_another_name_of_the_host_is_refused_with_the_right_cookie(browser: Browser, name: str) -> None:
    seen = browser.get("/", host=name)
    assert seen.status == 421
    assert "drinks" not in seen.text
    assert_guarded(seen)


@pytest.mark.parametrize("name", ["127.0.0.1:8737", "localhost:9", "LOCALHOST", "[::1]:8737"])
def test_names_of_loopback_are_taken_at_any_port_as_a_tunnel_has_its_own(browser: Browser, name: str) -> None:
    assert browser.get("/", host=name).status == 200


def test_a_host_that_is_not_loopback_has_its_own_name_alone() -> None:
    assert Access.at("192.0.2.7", 1).names == {"192.0.2.7"}


def test_every_answer_has_the_headers_that_keep_other_sites_out(browser: Browser) -> None:
    for path in ("/", "/certificate", "/plan", "/style.css", "/icon.svg", "/nothing", "/task/00/round/0"):
        assert_guarded(browser.get(path))
    policy = HEADERS["Content-Security-Policy"]
    assert policy.startswith("default-src 'none';")
    assert "script-src" not in policy
    assert "unsafe" not in policy


CROSS = [
    {"origin": "https://evil.example"},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
    {"origin": "http://127.0.0.1:9999"},
    {"origin": "http://[x"},
]


@pytest.mark.parametrize("headers", CROSS)
@pytest.mark.parametrize("path", ["/certificate", "/services/close", "/services/revoke"])
def test_a_form_of_another_site_does_nothing(browser: Browser, path: str, headers: dict[str, str]) -> None:
    seen = browser.post(path, {"task": "00", "round": "0", "devices": "00" * 16, "sure": "yes"}, headers)
    assert seen.status == 403
    assert "nothing was done" in seen.text


@pytest.mark.parametrize("word", ["", "x", "é"])
@pytest.mark.parametrize("path", ["/certificate", "/services/close", "/services/revoke"])
def test_a_form_without_the_word_does_nothing(browser: Browser, path: str, word: str) -> None:
    seen = browser.post(path, {"word": word, "task": "00", "round": "0", "sure": "yes"})
    assert seen.status in (400, 403)
    assert "nothing was done" in seen.text


def test_a_form_of_the_sites_own_address_is_taken(browser: Browser) -> None:
    assert "no file was given" in browser.post("/certificate", {}, {"origin": AT}).text


def test_other_methods_are_refused(browser: Browser) -> None:
    for method in ("PUT", "DELETE", "OPTIONS", "TRACE"):
        assert browser.client.request(method, "/").status_code == 405
    assert browser.client.head("/certificate").status_code == 200


def test_too_much_is_refused_before_it_is_read(browser: Browser) -> None:
    large = {"content-length": str(LARGEST_BODY + 1), "content-type": "application/octet-stream"}
    assert browser.client.post("/certificate", content=b"", headers=large).status_code == 413
    unknown = browser.client.post("/certificate", content=iter([b"x"]))
    assert unknown.status_code == 411
