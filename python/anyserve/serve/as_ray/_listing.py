"""Actors by name: ray.get_actor, ray.kill and list_actors. Replicas of deployments are listed as the actors that they are in Ray."""

from __future__ import annotations

import hashlib
import os
import select
import signal
from typing import Any, Iterator, List, NamedTuple, NoReturn, Optional, Sequence, Tuple

from . import PAGE, _hidden
from ._actors import ActorHandle, default_namespace, handle_of_row

__all__ = ["ActorState", "ReplicaHandle", "get_actor", "kill", "list_actors"]

REPLICA = "SERVE_REPLICA::"
SERVE_NAMESPACE = "serve"
DEFAULT_LIMIT, MAX_LIMIT = 100, 10_000
END_TIMEOUT_MS = 10_000  # for a process that was killed
_STATES = {"WAITING": "PENDING_CREATION", "STARTING": "PENDING_CREATION", "LOST": "RESTARTING", "KILLED": "DEAD", "DOWN": "DEAD"}
FILTERS = ("actor_id", "class_name", "state", "job_id", "name", "node_id", "pid", "ray_namespace", "repr_name", "placement_group_id")


class ActorState:
    """An actor in a list: attributes, which may also be asked for as items."""

    def __init__(self, actor_id: str, class_name: str, state: str, name: str, pid: int, ray_namespace: str, num_restarts: int,
                 is_detached: bool) -> None:  # fmt: skip
        self.actor_id, self.class_name, self.state, self.name = actor_id, class_name, state, name
        self.job_id, self.node_id = "01000000", node_id()
        self.pid, self.ray_namespace = pid, ray_namespace
        self.num_restarts, self.is_detached, self.repr_name = num_restarts, is_detached, ""
        self.placement_group_id: Optional[str] = None
        self.death_cause: Optional[Any] = None
        self.serialized_runtime_env, self.required_resources = "{}", {}  # type: str, Any

    def __getitem__(self, name: str) -> Any:
        try:
            return vars(self)[name]
        except KeyError:
            raise KeyError(name) from None

    def get(self, name: str, default: Any = None) -> Any:
        return vars(self).get(name, default)

    def asdict(self) -> Any:
        return dict(vars(self))

    def __repr__(self) -> str:
        return "ActorState(%s)" % ", ".join("%s=%r" % pair for pair in vars(self).items())


def node_id() -> str:
    import platform

    return hashlib.sha256(platform.node().encode()).hexdigest()[:56]


def replica_name(row: _hidden.Row) -> str:
    return "%s%s#%s#%s" % (REPLICA, row.application, row.deployment, row.replica)


def _state_of(row: _hidden.Row) -> str:
    state = _STATES.get(row.state, "ALIVE")
    return "RESTARTING" if state == "PENDING_CREATION" and row.starts > 1 else state


def _actor_state(row: _hidden.Row) -> ActorState:
    restarts = max(row.starts - 1, 0)
    if row.info is not None:
        return ActorState(row.info.id, row.info.class_name, _state_of(row), row.info.name, row.pid, row.info.namespace, restarts,
                          not row.info.end_with)  # fmt: skip
    name = replica_name(row)
    id = hashlib.sha256(("%s#%d" % (name, row.starts)).encode()).hexdigest()[:32]
    return ActorState(id, "ServeReplica:%s:%s" % (row.application, row.deployment), _state_of(row), name, row.pid,
                      SERVE_NAMESPACE, restarts, True)  # fmt: skip


def _rows() -> Iterator[_hidden.Row]:
    for row in [*_hidden.rows(), *_hidden.ENDED]:
        if row.info is None or row.info.kind == "actor":
            yield row


Filter = Tuple[str, str, Any]


def _check_filters(filters: Optional[Sequence[Filter]]) -> List[Filter]:
    out: List[Filter] = []
    for key, predicate, value in filters or ():
        if predicate not in ("=", "!="):
            raise ValueError("Unsupported filter predicate %s is given. Available predicates: =, !=." % predicate)
        if key not in FILTERS:
            raise ValueError("The given filter column %s is not supported. Supported filter columns: %s" % (key, sorted(FILTERS)))
        out.append((key, predicate, value))
    return out


def _fits(actor: ActorState, filters: Sequence[Filter]) -> bool:
    for key, predicate, value in filters:
        if (str(actor[key]).lower() == str(value).lower()) != (predicate == "="):
            return False
    return True


def list_actors(address: Optional[str] = None, filters: Optional[Sequence[Filter]] = None, limit: int = DEFAULT_LIMIT,
                timeout: int = 30, detail: bool = False, raise_on_missing_output: bool = True,
                _explain: bool = False) -> List[ActorState]:  # fmt: skip
    """The actors of the server: replicas of deployments and actors of programs; those, too, that this process has killed.

    filters: triples of a field, `=` or `!=`, and a value; letters count the same in both cases. limit: at most so many."""
    if not 0 < limit <= MAX_LIMIT:
        raise ValueError("Given limit %s exceeds the supported limit %d." % (limit, MAX_LIMIT))
    checked = _check_filters(filters)
    found = [a for a in map(_actor_state, _rows()) if _fits(a, checked)]
    return found[:limit]


class ReplicaHandle:
    """A replica of a deployment, as an actor: it can be killed. Its methods are called by handles of serve."""

    def __init__(self, row: _hidden.Row) -> None:
        self._row = row

    @property
    def _state(self) -> ActorState:
        return _actor_state(self._row)

    def __reduce__(self) -> Tuple[Any, ...]:
        return ReplicaHandle, (self._row,)

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError("the actor of a replica has no method %r here: call deployments by their handles (%s)" % (name, PAGE))

    def __repr__(self) -> str:
        return "Actor(ServeReplica:%s:%s, %s)" % (self._row.application, self._row.deployment, _actor_state(self._row).actor_id)


def replica_of_process(application: str, deployment: str, pid: int) -> Optional[ReplicaHandle]:
    """The replica whose process this is; None: the server does not list it."""
    for row in _hidden.rows():
        if (row.application, row.deployment, row.pid, row.info) == (application, deployment, pid, None):
            return ReplicaHandle(row)
    return None


def get_actor(name: str, namespace: Optional[str] = None) -> Any:
    """A named actor, or a replica by its name in Ray. ValueError: there is none."""
    if not isinstance(name, str) or not name:
        raise ValueError("Please supply a non-empty value to get_actor")
    if name.startswith(REPLICA):
        for row in _hidden.rows():
            if row.info is None and replica_name(row) == name and namespace in (None, SERVE_NAMESPACE) and row.pid:
                return ReplicaHandle(row)
    else:
        found = _hidden.find(name, default_namespace() if namespace is None else namespace)
        if found is not None:
            return handle_of_row(found)
    from .ray.exceptions import ActorHandleNotFoundError

    raise ActorHandleNotFoundError("Failed to look up actor with name '%s'. This could because 1. You are trying to look up a named actor "
                                   "you didn't create. 2. The named actor died. 3. You did not use a namespace matching the "
                                   "namespace of the actor." % name)  # fmt: skip


# --- killing ---


def _kill_process(pid: int) -> None:
    """Returns when it has ended."""
    try:
        fd = os.pidfd_open(pid)
    except OSError:
        return
    try:
        signal.pidfd_send_signal(fd, signal.SIGKILL)
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        poll.poll(END_TIMEOUT_MS)
    except ProcessLookupError:
        pass
    finally:
        os.close(fd)


def _kill_replica(handle: ReplicaHandle) -> None:
    for row in _hidden.rows():  # the process that it has now
        if row[:3] == handle._row[:3] and row.starts == handle._row.starts and row.pid:
            _kill_process(row.pid)
            _hidden.note_end(row)


def kill(actor: Any, *, no_restart: bool = True) -> None:
    """Ends an actor at once: calls that it has fail with RayActorError. no_restart=False: it is started again, if its
    max_restarts says so. A replica of a deployment is replaced, as after each crash."""
    if isinstance(actor, ReplicaHandle):
        return _kill_replica(actor)
    if not isinstance(actor, ActorHandle):
        raise ValueError("ray.kill() only supported for actors. For tasks, try ray.cancel(). Got: %s." % type(actor))
    mine = [row for row in _hidden.rows() if row.application == actor._application]
    if not no_restart and actor._info.max_restarts != 0:
        for row in mine:
            _kill_process(row.pid)
        return None
    _hidden.delete(actor._application)
    for row in mine:
        _kill_process(row.pid)
        _hidden.note_end(row)
    _hidden.delete(actor._application, wait=True)
    return None
