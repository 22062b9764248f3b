"""Scraping a metrics port as Prometheus does."""

from __future__ import annotations

import asyncio
import http.client
import ssl
from collections.abc import Iterator

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from support.patience import PATIENCE


class Scraped:
    """What a port showed: its text, and its samples by name and labels."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.families = {family.name: family for family in text_string_to_metric_families(text)}

    def samples(self) -> Iterator[Sample]:
        """Every sample there is."""
        for family in self.families.values():
            yield from family.samples

    def value(self, name: str, **labels: str) -> float:
        """The one sample of that name with at least these labels."""
        (found,) = self.matching(name, **labels)
        return found.value

    def total(self, name: str, **labels: str) -> float:
        """The sum of all samples of that name with at least these labels."""
        return sum(sample.value for sample in self.matching(name, **labels))

    def took(self, service: str, stage: str) -> float:
        """The seconds that all pieces of a stage's work took together."""
        return self.value(f"hubbub_{service}_stage_duration_seconds_sum", stage=stage)

    def matching(self, name: str, **labels: str) -> list[Sample]:
        """All samples of that name with at least these labels."""
        return [each for each in self.samples() if each.name == name and labels.items() <= each.labels.items()]


def fetch(address: str, path: str = "/metrics", context: ssl.SSLContext | None = None) -> tuple[int, str]:
    """GET a page: its status and text."""
    connection = (
        http.client.HTTPSConnection(address, timeout=PATIENCE, context=context)
        if context is not None
        else http.client.HTTPConnection(address, timeout=PATIENCE)
    )
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


async def scrape(address: str) -> Scraped:
    """Read a port's metrics."""
    status, text = await asyncio.to_thread(fetch, address)
    assert status == 200, text
    return Scraped(text)
