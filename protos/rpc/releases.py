"""Encodes and decodes the releases in a batch's announcement, and those that the analyzer knows."""

from __future__ import annotations

from hubbub.protos import codec
from hubbub.protos.identity.documents import SignedDocument
from hubbub.protos.identity.keys import HASH_BYTES, KeySet
from hubbub.protos.records.release_chain import Known, Release, ReleaseChunk
from hubbub.protos.v1 import delivery_pb2

Announcement = tuple[SignedDocument, KeySet, ReleaseChunk]
"""A batch's record, its round's keys, and the releases up to its round's."""


def write_begin(announcement: Announcement) -> delivery_pb2.BeginDeliveryRequest:
    """Encode a batch's announcement."""
    record, key_set, releases = announcement
    return delivery_pb2.BeginDeliveryRequest(
        record=codec.write_batch_record(record),
        key_set=codec.write_key_set(key_set),
        first=releases.first,
        releases=[_write_release(release) for release in releases.releases],
    )


def read_begin(message: delivery_pb2.BeginDeliveryRequest) -> Announcement:
    """Decode a batch's announcement."""
    releases = ReleaseChunk(message.first, tuple(_read_release(release) for release in message.releases))
    return codec.read_batch_record(message.record), codec.read_key_set(message.key_set), releases


def _write_release(release: Release) -> delivery_pb2.Release:
    return delivery_pb2.Release(
        round=codec.checked_number(release.round, "the round"),
        reports=release.reports,
        dummies=release.dummies,
        records=release.records,
    )


def _read_release(message: delivery_pb2.Release) -> Release:
    records = tuple(codec.checked(record, HASH_BYTES, "the hash of a record") for record in message.records)
    return Release(message.round, message.reports, message.dummies, records)


def write_known(known: Known) -> delivery_pb2.GetReleasesResponse:
    """Encode the releases of a task that the analyzer knows."""
    return delivery_pb2.GetReleasesResponse(count=known.count, head=known.head, uncounted=known.uncounted)


def read_known(message: delivery_pb2.GetReleasesResponse) -> Known:
    """Decode the releases of a task that the analyzer knows."""
    return Known(message.count, codec.checked(message.head, HASH_BYTES, "the head"), tuple(message.uncounted))
