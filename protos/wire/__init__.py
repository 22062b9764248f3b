"""gRPC adapters of the services: handlers and callers work with plain values, gRPC's own types stay in this package."""

from hubbub.protos.wire.calling import ControlCaller, DeliveryCaller, ResultsCaller, SubmissionCaller
from hubbub.protos.wire.following import FollowCaller, FollowHandler
from hubbub.protos.wire.handlers import ControlHandler, DeliveryHandler, ResultsHandler, SubmissionHandler
from hubbub.protos.wire.health import HealthCaller
from hubbub.protos.wire.serving import (
    serve_certified,
    serve_control,
    serve_delivery,
    serve_results,
    serve_standbys,
    serve_submissions,
    submission_doorway,
)
from hubbub.protos.wire.sizes import largest_submissions

SUBMISSION_SERVICE = "hubbub.v1.SubmissionService"
CONTROL_SERVICE = "hubbub.v1.RoundControlService"
DELIVERY_SERVICE = "hubbub.v1.DeliveryService"
RESULTS_SERVICE = "hubbub.v1.ResultsService"
STANDBY_SERVICE = "hubbub.v1.StandbyService"

__all__ = [
    "CONTROL_SERVICE",
    "DELIVERY_SERVICE",
    "RESULTS_SERVICE",
    "STANDBY_SERVICE",
    "SUBMISSION_SERVICE",
    "ControlCaller",
    "ControlHandler",
    "DeliveryCaller",
    "DeliveryHandler",
    "FollowCaller",
    "FollowHandler",
    "HealthCaller",
    "ResultsCaller",
    "ResultsHandler",
    "SubmissionCaller",
    "SubmissionHandler",
    "largest_submissions",
    "serve_certified",
    "serve_control",
    "serve_delivery",
    "serve_results",
    "serve_standbys",
    "serve_submissions",
    "submission_doorway",
]
