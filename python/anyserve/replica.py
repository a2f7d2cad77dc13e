"""The replica context: the name of a replica, its rank, and how many replicas there are.

The server starts a worker with a JSON object in ANYSERVE_CONTEXT, and may change some of it later
(CONTROL reconfigure, docs/protocol/link.md section 10).
"""

from __future__ import annotations

import contextvars
import dataclasses
import json
import os
from typing import Any, Callable, Dict, MutableMapping, NamedTuple, Optional, Tuple

__all__ = ["DeploymentID", "ReplicaContext", "ReplicaID", "ReplicaRank", "get_replica_context"]

VARIABLE = "ANYSERVE_CONTEXT"
FILE_VARIABLE = "ANYSERVE_CONTEXT_FILE"  # names a file that has it, if it is long
FILE_KEY = "context_file"  # the same for a running replica
_TEXTS = ("replica", "deployment", "application", "version")
_NUMBERS = ("rank", "world_size", "local_rank", "node_rank")
WARMUP = "warmup_requests"  # an option that cannot change while a replica runs
CHANGING = _NUMBERS + ("user_config", "options")  # keys that may change while a replica runs


class ReplicaRank(int):
    """The rank of a replica: a number that also has the ranks of its machine, under Ray Serve's names."""

    node_rank: int
    local_rank: int

    def __new__(cls, rank: int = 0, node_rank: int = 0, local_rank: int = 0) -> "ReplicaRank":
        self = int.__new__(cls, rank)
        self.node_rank, self.local_rank = int(node_rank), int(local_rank)
        return self

    @property
    def rank(self) -> int:
        """The same number, as a plain int."""
        return int(self)

    def __reduce__(self) -> Tuple[Any, ...]:
        return ReplicaRank, (int(self), self.node_rank, self.local_rank)


class DeploymentID(NamedTuple):
    """A deployment of an application."""

    name: str
    app_name: str = "default"

    def __str__(self) -> str:
        return "Deployment(name=%r, app=%r)" % (self.name, self.app_name)

    def __repr__(self) -> str:
        return str(self)


class ReplicaID(NamedTuple):
    """A replica of a deployment."""

    unique_id: str
    deployment_id: DeploymentID

    def to_full_id_str(self) -> str:
        """The name of the actor that the replica is in Ray."""
        return "SERVE_REPLICA::%s#%s#%s" % (self.deployment_id.app_name, self.deployment_id.name, self.unique_id)

    def __str__(self) -> str:
        return "Replica(id=%r, deployment=%r, app=%r)" % (self.unique_id, self.deployment_id.name, self.deployment_id.app_name)

    def __repr__(self) -> str:
        return str(self)


@dataclasses.dataclass(frozen=True)
class ReplicaContext:
    """Which replica this process is. When all replicas run, their ranks are 0 to world_size - 1; a
    replica keeps its rank when its process is replaced. get_replica_context returns the current
    state with each call."""

    replica: str = "replica-0"  # "<deployment>-<number>"
    deployment: str = "default"
    application: str = "default"
    rank: ReplicaRank = ReplicaRank()
    world_size: int = 1  # how many replicas the deployment should have
    local_rank: int = 0  # on this machine
    node_rank: int = 0  # of this machine
    version: str = ""  # of the deployment
    describing: bool = False  # no replica: the process only describes what the code declares
    # of `anyserve.serve`: the function, or the object of the class; None while that is constructed
    servable_object: Any = dataclasses.field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        # `replace` and the server give plain numbers
        object.__setattr__(self, "rank", ReplicaRank(self.rank, self.node_rank, self.local_rank))

    # the names in Ray Serve
    @property
    def replica_tag(self) -> str:
        return self.replica

    @property
    def app_name(self) -> str:
        return self.application

    @property
    def replica_id(self) -> ReplicaID:
        return ReplicaID(self.replica, DeploymentID(self.deployment, self.application))


class Given(NamedTuple):
    """What the server gives a worker at its start."""

    context: ReplicaContext
    user_config: Any  # None: not set, so that of the code is used
    options: Dict[str, Any]


_current: Optional[ReplicaContext] = None
# with several replicas in one process (testing/local.py): the one whose code runs
within: "contextvars.ContextVar[Callable[[], ReplicaContext]]" = contextvars.ContextVar("anyserve_replica")
_wait_until_assigned: Optional[Callable[[], None]] = None  # in a warm spare: waits until it is a replica


def get_replica_context() -> ReplicaContext:
    """The replica that this process is; may be called while its module is imported. RuntimeError in a
    process that no server has started. In a warm spare, which loads its code before it is a replica,
    this waits until it is one. In a process that only describes what the code declares, the context
    has rank 0 of 1 and `describing`."""
    here = within.get(None)
    if here is not None:
        return here()
    if _current is None and _wait_until_assigned is not None:
        _wait_until_assigned()
    if _current is None:
        raise RuntimeError("get_replica_context() is for code that a worker runs; this process is no replica")
    return _current


def set_waiter(wait: Callable[[], None]) -> None:
    """The process is not a replica yet: `wait` returns when it is, after a call of `enter`."""
    global _wait_until_assigned
    _wait_until_assigned = wait


def enter(context: ReplicaContext) -> None:
    """From now on the process is this replica."""
    global _current
    _current = context


def check(fields: Any) -> Dict[str, Any]:
    """Checks what the server gave. ValueError says what is wrong."""
    if not isinstance(fields, dict):
        raise ValueError("it is no JSON object")
    for key, value in fields.items():
        if key in _TEXTS:
            ok = isinstance(value, str)
        elif key in _NUMBERS:
            ok = isinstance(value, int) and not isinstance(value, bool) and value >= 0
        elif key == "options":
            ok = isinstance(value, dict)
        elif key == WARMUP:
            ok = isinstance(value, list)
        elif key == "user_config":
            ok = True
        else:
            raise ValueError("unknown key %r" % key)
        if not ok:
            raise ValueError("%s cannot be %s" % (key, json.dumps(value)))
    return fields


def parse(text: str) -> Dict[str, Any]:
    """Parses the JSON text of a CONTROL, or the file that it names. ValueError."""
    fields = json.loads(text)
    if isinstance(fields, dict) and list(fields) == [FILE_KEY]:
        fields = _read_file(fields[FILE_KEY])
    return check(fields)


def _read_file(path: Any) -> Any:
    try:
        with open(path, encoding="utf-8") as f:
            return json.load(f)
    except (OSError, TypeError) as e:
        raise ValueError("it is in a file that cannot be read: %s" % e) from None


def context_of(fields: Dict[str, Any], old: ReplicaContext) -> ReplicaContext:
    return dataclasses.replace(old, **{k: v for k, v in fields.items() if k in _TEXTS + _NUMBERS})


def named(given: Given, deployment: str) -> Given:
    """Adds the name of the deployment, if the server did not give it."""
    if given.context.deployment != ReplicaContext.deployment:
        return given
    return given._replace(context=dataclasses.replace(given.context, deployment=deployment))


def read(environ: MutableMapping[str, str], deployment: Optional[str]) -> Given:
    """Reads the environment, and removes what it reads: children of the worker are no replicas. ValueError."""
    path = environ.pop(FILE_VARIABLE, None)
    text = environ.pop(VARIABLE, None)
    fields = check(_read_file(path)) if path else check(json.loads(text or "{}"))
    context = ReplicaContext()
    if deployment:
        context = dataclasses.replace(context, deployment=deployment, replica=deployment + "-0")
    if environ.get("ANYSERVE_REPLICA"):
        context = dataclasses.replace(context, replica=environ["ANYSERVE_REPLICA"])
    options = {**fields.get("options", {}), **{k: v for k, v in fields.items() if k == WARMUP}}
    return Given(context_of(fields, context), fields.get("user_config"), options)


os.register_at_fork(after_in_child=lambda: globals().update(_current=None, _wait_until_assigned=None))
