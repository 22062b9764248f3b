"""Reads a page as people and browsers do: its words, links, elements, and the exact value behind each number."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"meta", "br", "hr", "link", "img", "input"}
UNSEEN = {"style", "title", "desc"}


class Page(HTMLParser):
    """A page or a part of one, read; it fails if elements are not closed in order.

    Attributes:
        words: its text, without what only screen readers and browsers have.
        links: where its links and sources lead.
        elements: the names of its elements.
        tags: each element with its attributes, in order.
        numbers: the exact value of each `<data>`, in order.
        described: titles and descriptions of pictures.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.words, self.described, self.links = "", "", list[str]()
        self.tags, self.numbers = list[tuple[str, dict[str, str]]](), list[float]()
        self._open: list[str] = []
        # A Markup would escape what is added to it.
        self.feed(str(text))
        self.close()
        assert self._open == []

    @property
    def elements(self) -> set[str]:
        return {tag for tag, _ in self.tags}

    def of(self, tag: str, kind: str = "") -> list[dict[str, str]]:
        """The attributes of each element of this name, with this among its classes."""
        named = [found for name, found in self.tags if name == tag]
        return [found for found in named if not kind or kind in found.get("class", "").split()]

    @property
    def policy(self) -> str:
        """Its Content-Security-Policy."""
        (found,) = (each["content"] for each in self.of("meta") if "http-equiv" in each)
        return found

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._saw(tag, attrs)
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._saw(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if UNSEEN.isdisjoint(self._open):
            self.words += data
        elif "style" not in self._open:
            self.described += data

    def _saw(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.tags.append((tag, found))
        self.links += [found[name] for name in ("href", "src") if name in found]
        if tag == "data":
            self.numbers.append(float(found["value"]))
