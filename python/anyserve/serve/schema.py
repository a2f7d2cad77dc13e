"""What `serve.status()` says, and the other models that Ray Serve has in this module."""

from __future__ import annotations

import dataclasses
from enum import Enum
from typing import TYPE_CHECKING, Dict, Optional

from . import _not_yet
from ..replica import ReplicaRank
from .config import EncodingType, LoggingConfig, TracingConfig


__all__ = ["ApplicationStatus", "ApplicationStatusOverview", "DeploymentStatus", "DeploymentStatusOverview",
           "DeploymentStatusTrigger", "EncodingType", "LoggingConfig", "ProxyStatus", "ReplicaRank", "ReplicaState",
           "ServeStatus", "TracingConfig"]  # fmt: skip

if not TYPE_CHECKING:  # to a type checker every name would be a known one
    __getattr__ = _not_yet.refuse("schema", _not_yet.NO_TASK_CONSUMERS, "CeleryAdapterConfig", "TaskProcessorAdapter",
                                  "TaskProcessorConfig", "TaskResult")  # fmt: skip


class ApplicationStatus(str, Enum):
    NOT_STARTED = "NOT_STARTED"
    DEPLOYING = "DEPLOYING"
    DEPLOY_FAILED = "DEPLOY_FAILED"
    RUNNING = "RUNNING"
    UNHEALTHY = "UNHEALTHY"
    DELETING = "DELETING"


class DeploymentStatus(str, Enum):
    UPDATING = "UPDATING"
    HEALTHY = "HEALTHY"
    UNHEALTHY = "UNHEALTHY"
    DEPLOY_FAILED = "DEPLOY_FAILED"
    UPSCALING = "UPSCALING"
    DOWNSCALING = "DOWNSCALING"


class DeploymentStatusTrigger(str, Enum):
    UNSPECIFIED = "UNSPECIFIED"
    CONFIG_UPDATE_STARTED = "CONFIG_UPDATE_STARTED"
    CONFIG_UPDATE_COMPLETED = "CONFIG_UPDATE_COMPLETED"
    UPSCALE_COMPLETED = "UPSCALE_COMPLETED"
    DOWNSCALE_COMPLETED = "DOWNSCALE_COMPLETED"
    AUTOSCALING = "AUTOSCALING"
    REPLICA_STARTUP_FAILED = "REPLICA_STARTUP_FAILED"
    DEPLOYMENT_ACTOR_FAILED = "DEPLOYMENT_ACTOR_FAILED"
    HEALTH_CHECK_FAILED = "HEALTH_CHECK_FAILED"
    INTERNAL_ERROR = "INTERNAL_ERROR"
    DELETING = "DELETING"


class ReplicaState(str, Enum):
    STARTING = "STARTING"
    UPDATING = "UPDATING"
    RECOVERING = "RECOVERING"
    RUNNING = "RUNNING"
    STOPPING = "STOPPING"
    STOPPED = "STOPPED"
    PENDING_MIGRATION = "PENDING_MIGRATION"


class ProxyStatus(str, Enum):
    STARTING = "STARTING"
    HEALTHY = "HEALTHY"
    UNHEALTHY = "UNHEALTHY"
    DRAINING = "DRAINING"
    DRAINED = "DRAINED"


@dataclasses.dataclass
class DeploymentStatusOverview:
    """The state of a deployment. replica_states: how many replicas there are in each state that one is in."""

    status: DeploymentStatus
    status_trigger: DeploymentStatusTrigger
    replica_states: Dict[str, int]
    message: str


@dataclasses.dataclass
class ApplicationStatusOverview:
    """The state of an application. last_deployed_time_s: Unix time."""

    status: ApplicationStatus
    message: str
    last_deployed_time_s: float
    deployments: Dict[str, DeploymentStatusOverview]


@dataclasses.dataclass
class ServeStatus:
    """The state of the server: its dispatcher under `proxies`, and the applications by name."""

    proxies: Dict[str, ProxyStatus] = dataclasses.field(default_factory=dict)
    applications: Dict[str, ApplicationStatusOverview] = dataclasses.field(default_factory=dict)
    target_capacity: Optional[float] = None
