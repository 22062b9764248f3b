"""The serving side of the wire: request pipeline, limits, servicers and Connect; devices load none of it."""

from hubbub.service.rpc.handlers import (
    CertifiedHandler,
    ControlHandler,
    DeliveryHandler,
    FollowHandler,
    KeeperHandler,
    ResultsHandler,
    SubmissionHandler,
)
from hubbub.service.rpc.servicers import (
    serve_certified,
    serve_control,
    serve_delivery,
    serve_keeper,
    serve_results,
    serve_standbys,
    serve_submissions,
    submission_doorway,
)
from hubbub.service.rpc.size_limits import largest_submissions

__all__ = [
    "CertifiedHandler",
    "ControlHandler",
    "DeliveryHandler",
    "FollowHandler",
    "KeeperHandler",
    "ResultsHandler",
    "SubmissionHandler",
    "largest_submissions",
    "serve_certified",
    "serve_control",
    "serve_delivery",
    "serve_keeper",
    "serve_results",
    "serve_standbys",
    "serve_submissions",
    "submission_doorway",
]
