"""Encodes and decodes the open incidents of a service."""

from __future__ import annotations

from hubbub.protos import codec
from hubbub.protos.errors import MessageError
from hubbub.protos.messages import Incident, IncidentReport
from hubbub.protos.v1 import incidents_pb2

LATEST_MS = 253_402_300_799_999
"""The last millisecond of the year 9999: dates end there."""


def write_incidents(incident_report: IncidentReport) -> incidents_pb2.GetIncidentsResponse:
    """Encode the open incidents of a service."""
    incidents = [_write_incident(incident) for incident in incident_report.incidents]
    return incidents_pb2.GetIncidentsResponse(incidents=incidents, log_lines_lost=incident_report.log_lines_lost)


def read_incidents(message: incidents_pb2.GetIncidentsResponse) -> IncidentReport:
    """Decode the open incidents of a service.

    Raises:
        MessageError: if a time is beyond all dates.
    """
    return IncidentReport(tuple(_read_incident(incident) for incident in message.incidents), message.log_lines_lost)


def _write_incident(incident: Incident) -> incidents_pb2.Incident:
    since_ms = min(max(0, round(incident.since * 1000)), LATEST_MS)
    return incidents_pb2.Incident(
        kind=codec.plain(incident.kind), text=codec.plain(incident.text), since_ms=since_ms, count=incident.count
    )


def _read_incident(message: incidents_pb2.Incident) -> Incident:
    if message.since_ms > LATEST_MS:
        raise MessageError(f"an incident's time is {message.since_ms} ms since 1970, but may be at most {LATEST_MS}")
    return Incident(codec.plain(message.kind), codec.plain(message.text), message.since_ms / 1000, message.count)
