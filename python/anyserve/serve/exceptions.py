"""The exceptions of serve, with the names and texts that programs for Ray Serve match.

What user code raised arrives at its callers as an instance of a class that is made for it, `RayTaskError(ValueError)`: it is a
RayTaskError and a ValueError, has the original's attributes, the original as `.cause`, and the remote traceback as its text.
"""

from __future__ import annotations

import re
import types
from typing import Any, Dict, Optional, Tuple, Type

from ..replica import DeploymentID

__all__ = ["ActorDiedError", "ActorUnavailableError", "BackPressureError", "DeploymentUnavailableError", "RayActorError",
           "RayError", "RayServeException", "RayTaskError", "ReplicaUnavailableError", "RequestCancelledError",
           "TaskCancelledError", "error_of_status", "gRPCStatusError"]  # fmt: skip


class _Base(Exception):
    """Beside it, as_ray makes the RayError of an installed ray a base of ours, which must not have Exception itself as a base."""


class RayError(_Base):
    """The base of what is raised because of the system or of remote code."""


class RayServeException(Exception):
    """The base of errors of serve itself."""


class TaskCancelledError(RayError):
    """A call was cancelled."""


class RayActorError(RayError):
    """A replica was lost."""


class ActorDiedError(RayActorError):
    """The replica ended while it had the call, which may have run."""


class ActorUnavailableError(RayActorError):
    """The call did not reach a replica."""


class gRPCStatusError(RayServeException):
    """An exception of user code together with the gRPC status that it chose."""

    def __init__(self, original_exception: BaseException, code: Any = None, details: Optional[str] = None) -> None:
        super().__init__(str(original_exception))
        self.original_exception, self.grpc_code, self.grpc_details = original_exception, code, details

    def __reduce__(self) -> Tuple[Any, ...]:
        return type(self), (self.original_exception, self.grpc_code, self.grpc_details)


class BackPressureError(RayServeException):
    """The deployment's queue is full (`max_queued_requests`), or calls are nested too deep."""

    def __init__(
        self,
        num_queued_requests: int,
        max_queued_requests: int,
        status_code: int = 503,
        retry_after_s: Optional[float] = None,
    ) -> None:
        super().__init__(num_queued_requests, max_queued_requests, status_code, retry_after_s)
        self.message = "Request dropped due to backpressure (num_queued_requests=%s, max_queued_requests=%s)." % (
            num_queued_requests, max_queued_requests)  # fmt: skip
        self.status_code, self.retry_after_s = status_code, retry_after_s

    def __str__(self) -> str:
        return self.message


class RequestCancelledError(RayServeException, TaskCancelledError):
    """The request was cancelled."""

    def __init__(self, request_id: Optional[str] = None) -> None:
        super().__init__(request_id)
        self.request_id = request_id

    def __str__(self) -> str:
        return "Request %s was cancelled." % self.request_id if self.request_id else "Request was cancelled."


class DeploymentUnavailableError(RayServeException):
    """The deployment failed, so that it takes no requests."""

    def __init__(self, deployment_id: DeploymentID) -> None:
        super().__init__(deployment_id)
        self.deployment_id = deployment_id

    @property
    def message(self) -> str:
        return "%s is unavailable because it failed to deploy." % (self.deployment_id,)

    def __str__(self) -> str:
        return self.message


class ReplicaUnavailableError(RayServeException):
    """The replica that was chosen is there no longer."""

    def __init__(self, replica_id: str) -> None:
        super().__init__(replica_id)
        self.replica_id = replica_id

    @property
    def message(self) -> str:
        return "Replica %s is no longer available." % self.replica_id

    def __str__(self) -> str:
        return self.message


# --- exceptions of user code ---


class RayTaskError(RayError):
    """User code raised an exception. `cause` is that exception, or a RayError where it could not be sent."""

    def __init__(self, type_name: str, traceback_text: str, cause: BaseException) -> None:
        self.type_name, self.traceback_text, self.cause = type_name, traceback_text, cause
        super().__init__(type_name, traceback_text, cause)

    def __str__(self) -> str:
        return self.traceback_text

    def __reduce__(self) -> Tuple[Any, ...]:
        from ._payload import dump_cause, load_error

        pickled, message = dump_cause(self.cause)
        return load_error, (self.type_name, message, self.traceback_text, pickled)

    def as_instanceof_cause(self) -> "RayTaskError":
        """The same as an exception that is also one of the cause's class."""
        return made_error(self.type_name, self.traceback_text, self.cause)


_classes: Dict[Type[BaseException], Optional[type]] = {}
_MAX_CLASSES = 256
_SLOTS = (types.GetSetDescriptorType, types.MemberDescriptorType)


def _no_init(self: Any, *_: Any) -> None:
    """The cause's __init__ was run for the cause."""


def _get_cause_attr(self: Any, name: str) -> Any:
    if name in ("cause", "type_name", "traceback_text"):  # not set yet
        raise AttributeError(name)
    return getattr(self.cause, name)


def _class_for(cause: Type[BaseException]) -> Optional[type]:
    """RayTaskError(cause), or None if no class can have both as its bases."""
    name = "RayTaskError(%s)" % cause.__name__
    members = {
        "__init__": _no_init,
        "__module__": RayTaskError.__module__,
        "__qualname__": name,
        "__getattr__": _get_cause_attr,
        "__str__": RayTaskError.__str__,
        "__repr__": lambda self: "%s(%r)" % (type(self).__name__, self.cause),
        "__reduce__": RayTaskError.__reduce__,
        "__hash__": object.__hash__,
        "__eq__": object.__eq__,
        "args": property(lambda self: (self.cause,), lambda self, value: None),
    }
    try:
        return type(name, (RayTaskError, cause), members)
    except Exception:  # the class is final, its layout does not allow it, or its __init_subclass__ or metaclass refuses
        return None


def _copy_slots(cause: BaseException, error: Any) -> None:
    """What a class in C, or with __slots__, keeps beside the instance's dict: `filename`, `value`, `code`."""
    for kind in type(cause).__mro__[:-2]:  # not of BaseException
        for name, member in vars(kind).items():
            if isinstance(member, _SLOTS) and not name.startswith("__") and hasattr(cause, name):
                try:
                    setattr(error, name, getattr(cause, name))
                except (AttributeError, TypeError):  # it can only be read; `cause` has it
                    pass


def made_error(type_name: str, traceback_text: str, cause: BaseException) -> RayTaskError:
    """The exception that callers get for `cause`, raised remotely."""
    if isinstance(cause, RayTaskError):
        cause = cause.cause
    kind = type(cause)
    if kind not in _classes:
        if len(_classes) >= _MAX_CLASSES:  # classes by value are new ones each time
            _classes.clear()
        _classes[kind] = None if issubclass(RayTaskError, kind) else _class_for(kind)
    made = _classes[kind]
    if made is None:
        return RayTaskError(type_name, traceback_text, cause)
    try:
        if isinstance(cause, BaseExceptionGroup):
            error = made.__new__(made, cause.message, cause.exceptions)  # type: ignore[call-overload]
        else:
            error = made.__new__(made)  # type: ignore[call-overload]
        error.type_name, error.traceback_text, error.cause = type_name, traceback_text, cause
        _copy_slots(cause, error)
    except Exception:  # its __new__ or __setattr__ is its own
        return RayTaskError(type_name, traceback_text, cause)
    return error  # type: ignore[no-any-return]


# --- errors that the server answers with ---

_BACKPRESSURE = re.compile(r"num_queued_requests=(-?\d+), max_queued_requests=(-?\d+)")
Refusal = Tuple[int, Optional[float]]  # status_code and retry_after_s of a deployment's backpressure_config
DEFAULT_REFUSAL: Refusal = (503, None)
_refusals: Dict[Tuple[str, str], Refusal] = {}  # by application and deployment: those that handles have brought
_FAILED_TO_DEPLOY = "is unavailable because it failed to deploy."


def note_refusal(application: str, deployment: str, refusal: Refusal) -> None:
    """Callers in this process get it in a BackPressureError of this deployment: an ERROR of the dispatcher does not have it."""
    if refusal != DEFAULT_REFUSAL:
        _refusals[application, deployment] = refusal
    else:
        _refusals.pop((application, deployment), None)


def error_of_status(
    status: int, text: str, *, request_id: str = "", application: str = "default", deployment: str = "", started: bool = False
) -> BaseException:
    """The exception for a call that the dispatcher ended with a gRPC status. started: user code may have run."""
    if status == 1:  # CANCELLED
        return RequestCancelledError(request_id)
    if status == 4:  # DEADLINE_EXCEEDED
        return TimeoutError(text or "Request %s timed out." % request_id)
    if status == 8:  # RESOURCE_EXHAUSTED
        found = _BACKPRESSURE.search(text)
        queued, limit = (int(found[1]), int(found[2])) if found else (-1, -1)
        error = BackPressureError(queued, limit, *_refusals.get((application, deployment), DEFAULT_REFUSAL))
        error.message = text or error.message
        return error
    if status == 14:  # UNAVAILABLE
        if _FAILED_TO_DEPLOY in text:
            return DeploymentUnavailableError(DeploymentID(deployment, application))
        return ActorDiedError(text) if started else ActorUnavailableError(text)
    return RayServeException(text)
