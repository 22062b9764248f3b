"""Defines the content types and error codes of the Connect protocol, which clients and servers share.

Source: https://connectrpc.com/docs/protocol, "Unary".
"""

from __future__ import annotations

import grpc

PROTO, JSON = "application/proto", "application/json"
"""Content types of messages, and of errors."""


def code_of(status: grpc.StatusCode) -> str:
    """Return Connect's code for a gRPC status."""
    return "canceled" if status is grpc.StatusCode.CANCELLED else status.name.lower()


def status_of(code: str) -> grpc.StatusCode:
    """Map a Connect error code to a gRPC status; unknown codes map to UNKNOWN."""
    return next((status for status in grpc.StatusCode if code_of(status) == code), grpc.StatusCode.UNKNOWN)
