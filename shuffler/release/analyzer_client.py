"""Calls the analyzer over a channel that is replaced when TLS files change; calls in progress end on the old one."""

from __future__ import annotations

import asyncio

import grpc

from hubbub.protos.identity.documents import SignedDocument
from hubbub.protos.identity.keys import KeySet
from hubbub.protos.messages import Committed, Envelopes
from hubbub.protos.records.batch import BatchId
from hubbub.protos.records.release_chain import Known, ReleaseChunk
from hubbub.protos.rpc import DeliveryCaller
from hubbub.protos.transport.channels import TLS, open_channel
from hubbub.service.transport.tls_reload import ReloadingCertificates

CLOSE_SECONDS = 60.0
"""How long calls in progress may take on a replaced channel; a longer call is repeated, as every call may be."""


class ReconnectingAnalyzer:
    """The analyzer at an address (`release.delivery.Analyzer`), called with the current TLS files."""

    def __init__(self, address: str, tls: TLS, certificates: ReloadingCertificates) -> None:
        """Open a channel; it connects at the first call.

        Raises:
            HubbubError: if the TLS files cannot be used.
        """
        self._address, self._tls, self._certificates = address, tls, certificates
        self._opened_at = certificates.renewals
        self._channel = open_channel(address, tls)
        self._closing: set[asyncio.Task[None]] = set()

    def _caller(self) -> DeliveryCaller:
        renewals = self._certificates.renewals
        if renewals != self._opened_at:
            # A gRPC channel keeps its first TLS files, even when it reconnects.
            following = open_channel(self._address, self._tls)
            self._close(self._channel)
            self._channel, self._opened_at = following, renewals
        return DeliveryCaller(self._channel)

    def _close(self, channel: grpc.aio.Channel) -> None:
        closing = asyncio.create_task(channel.close(CLOSE_SECONDS))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Close the channel, and end the calls on replaced ones."""
        for closing in list(self._closing):
            closing.cancel()
        await asyncio.gather(*self._closing, return_exceptions=True)
        await self._channel.close()

    async def get_key(self, task_id: bytes, round_number: int, deadline: float) -> SignedDocument:
        return await self._caller().get_key(task_id, round_number, deadline)

    async def get_releases(self, task_id: bytes, deadline: float) -> Known:
        return await self._caller().get_releases(task_id, deadline)

    async def begin(self, record: SignedDocument, key_set: KeySet, releases: ReleaseChunk, deadline: float) -> int:
        """Announce a batch, with the releases that are new; return the offset to go on from."""
        return await self._caller().begin(record, key_set, releases, deadline)

    async def put(self, chunk: Envelopes, deadline: float) -> int:
        return await self._caller().put(chunk, deadline)

    async def commit(self, batch: BatchId, digest: bytes, deadline: float) -> Committed:
        return await self._caller().commit(batch, digest, deadline)
