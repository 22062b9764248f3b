"""Calls the services over gRPC and HTTPS; callers take and return plain values, and gRPC's types stay in here."""

from hubbub.protos.rpc.clients import ControlCaller, DeliveryCaller, ResultsCaller, SubmissionCaller
from hubbub.protos.rpc.health import HealthCaller
from hubbub.protos.rpc.leader import LeaderCaller
from hubbub.protos.rpc.replication import ReplicationCaller

SUBMISSION_SERVICE = "hubbub.v1.SubmissionService"
CONTROL_SERVICE = "hubbub.v1.RoundControlService"
DELIVERY_SERVICE = "hubbub.v1.DeliveryService"
RESULTS_SERVICE = "hubbub.v1.ResultsService"
REPLICATION_SERVICE = "hubbub.v1.ReplicationService"
LEADER_SERVICE = "hubbub.v1.LeaderService"

__all__ = [
    "CONTROL_SERVICE",
    "DELIVERY_SERVICE",
    "LEADER_SERVICE",
    "REPLICATION_SERVICE",
    "RESULTS_SERVICE",
    "SUBMISSION_SERVICE",
    "ControlCaller",
    "DeliveryCaller",
    "HealthCaller",
    "LeaderCaller",
    "ReplicationCaller",
    "ResultsCaller",
    "SubmissionCaller",
]
