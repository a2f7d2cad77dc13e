"""What ray.get and handles raise. Those that serve raises, too, are the same classes."""

from __future__ import annotations

from ...exceptions import (ActorDiedError, ActorUnavailableError, RayActorError, RayError, RayTaskError,
                           TaskCancelledError)  # fmt: skip

__all__ = ["ActorAlreadyExistsError", "ActorDiedError", "ActorHandleNotFoundError", "ActorUnavailableError",
           "ActorUnschedulableError", "AsyncioActorExit", "CrossLanguageError", "GetTimeoutError", "LocalRayletDiedError",
           "NodeDiedError", "ObjectFetchTimedOutError", "ObjectFreedError", "ObjectLostError", "ObjectReconstructionFailedError",
           "ObjectStoreFullError", "OutOfDiskError", "OutOfMemoryError", "OwnerDiedError", "PendingCallsLimitExceeded",
           "RayActorError", "RayError", "RaySystemError", "RayTaskError", "RuntimeEnvSetupError", "TaskCancelledError",
           "TaskUnschedulableError", "WorkerCrashedError"]  # fmt: skip


class GetTimeoutError(RayError, TimeoutError):
    """ray.get: the result is not there in time."""


class WorkerCrashedError(RayError):
    """The process that ran a task has died."""


class ActorAlreadyExistsError(ValueError, RayError):
    """There is an actor of this name."""


class ActorHandleNotFoundError(ValueError, RayError):
    """There is no actor of this name."""


class RaySystemError(RayError):
    """For programs that catch it; it is not raised here, as those below."""


class AsyncioActorExit(RayError):
    pass


class ObjectLostError(RayError):
    pass


class ObjectFetchTimedOutError(ObjectLostError):
    pass


class ObjectFreedError(ObjectLostError):
    pass


class ObjectReconstructionFailedError(ObjectLostError):
    pass


class OwnerDiedError(ObjectLostError):
    pass


class ObjectStoreFullError(RayError):
    pass


class OutOfDiskError(RayError):
    pass


class NodeDiedError(RayError):
    pass


class LocalRayletDiedError(RayError):
    pass


class CrossLanguageError(RayError):
    pass


class ActorUnschedulableError(RayError):
    pass


class OutOfMemoryError(RayError):
    pass


class PendingCallsLimitExceeded(RayError):
    pass


class RuntimeEnvSetupError(RayError):
    pass


class TaskUnschedulableError(RayError):
    pass
