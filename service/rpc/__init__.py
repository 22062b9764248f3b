"""Serves the calls of the contract: request pipeline, limits, servicers and Connect. Devices load none of it."""

from hubbub.service.rpc.handlers import (
    ControlHandler,
    DeliveryHandler,
    LeaderHandler,
    MtlsHandler,
    ReplicationHandler,
    ResultsHandler,
    SubmissionHandler,
)
from hubbub.service.rpc.servicers import (
    serve_control,
    serve_delivery,
    serve_leader,
    serve_mtls,
    serve_replication,
    serve_results,
    serve_submissions,
    submission_router,
)
from hubbub.service.rpc.size_limits import largest_submissions

__all__ = [
    "ControlHandler",
    "DeliveryHandler",
    "LeaderHandler",
    "MtlsHandler",
    "ReplicationHandler",
    "ResultsHandler",
    "SubmissionHandler",
    "largest_submissions",
    "serve_control",
    "serve_delivery",
    "serve_leader",
    "serve_mtls",
    "serve_replication",
    "serve_results",
    "serve_submissions",
    "submission_router",
]
