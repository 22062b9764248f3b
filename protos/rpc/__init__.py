"""Clients of the services: callers take and return plain values, gRPC's own types stay in this package."""

from hubbub.protos.rpc.clients import ControlCaller, DeliveryCaller, ResultsCaller, SubmissionCaller
from hubbub.protos.rpc.health import HealthCaller
from hubbub.protos.rpc.leader import KeeperCaller
from hubbub.protos.rpc.replication import FollowCaller

SUBMISSION_SERVICE = "hubbub.v1.SubmissionService"
CONTROL_SERVICE = "hubbub.v1.RoundControlService"
DELIVERY_SERVICE = "hubbub.v1.DeliveryService"
RESULTS_SERVICE = "hubbub.v1.ResultsService"
STANDBY_SERVICE = "hubbub.v1.StandbyService"
KEEPER_SERVICE = "hubbub.v1.KeeperService"

__all__ = [
    "CONTROL_SERVICE",
    "DELIVERY_SERVICE",
    "KEEPER_SERVICE",
    "RESULTS_SERVICE",
    "STANDBY_SERVICE",
    "SUBMISSION_SERVICE",
    "ControlCaller",
    "DeliveryCaller",
    "FollowCaller",
    "HealthCaller",
    "KeeperCaller",
    "ResultsCaller",
    "SubmissionCaller",
]
