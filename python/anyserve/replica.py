"""What a replica knows of itself: its name, its rank, how many there are.

The server starts a worker with a JSON object in ANYSERVE_CONTEXT, and may change some of it later
(CONTROL reconfigure, docs/PROTOCOL.md section 10).
"""

from __future__ import annotations

import contextvars
import dataclasses
import json
import os
from typing import Any, Callable, Dict, MutableMapping, NamedTuple, Optional

__all__ = ["ReplicaContext", "get_replica_context"]

VARIABLE = "ANYSERVE_CONTEXT"
FILE_VARIABLE = "ANYSERVE_CONTEXT_FILE"  # names a file that holds it, when it is long
FILE_KEY = "context_file"  # the same for a running replica
_TEXTS = ("replica", "deployment", "application", "version")
_NUMBERS = ("rank", "world_size", "local_rank", "node_rank")
WARMUP = "warmup_requests"  # of a deployment file; beside the options, which may change
CHANGING = _NUMBERS + ("user_config", "options")  # what a running replica may be told


@dataclasses.dataclass(frozen=True)
class ReplicaContext:
    """Which replica this process is. Ranks go from 0 to world_size - 1, once all replicas run; a
    replica keeps its rank when its process is replaced. Each call of get_replica_context gives the
    state of that moment."""

    replica: str = "replica-0"  # "<deployment>-<number>"
    deployment: str = "default"
    application: str = "default"
    rank: int = 0
    world_size: int = 1  # replicas that the deployment shall have
    local_rank: int = 0  # on this machine
    node_rank: int = 0  # of this machine
    version: str = ""  # of the deployment, as it was declared
    describing: bool = False  # no replica: the process that only asks the file what it declares

    # the names that Ray Serve has
    @property
    def replica_tag(self) -> str:
        return self.replica

    @property
    def app_name(self) -> str:
        return self.application


class Given(NamedTuple):
    """What the server said at the start."""

    context: ReplicaContext
    user_config: Any  # None: not set; then the code's counts
    options: Dict[str, Any]


_current: Optional[ReplicaContext] = None
# where several replicas are in one process (local.py): which one's code runs
within: "contextvars.ContextVar[Callable[[], ReplicaContext]]" = contextvars.ContextVar("anyserve_replica")
_become: Optional[Callable[[], None]] = None  # of a warm spare: waits until it is a replica


def get_replica_context() -> ReplicaContext:
    """The replica that this process is; also while its module is imported. RuntimeError where
    there is none: in a process that no server has started. In a warm spare, which loads its code
    before it is a replica, it waits until it is one. In the process that imports the file only to
    see what it declares it is rank 0 of 1, and `describing`."""
    here = within.get(None)
    if here is not None:
        return here()
    if _current is None and _become is not None:
        _become()
    if _current is None:
        raise RuntimeError("get_replica_context() is for code that a worker runs; this process is no replica")
    return _current


def wait_by(become: Callable[[], None]) -> None:
    """The process is no replica yet: `become` waits until it is, and calls `enter`."""
    global _become
    _become = become


def enter(context: ReplicaContext) -> None:
    """The process is that replica from now on."""
    global _current
    _current = context


def check(said: Any) -> Dict[str, Any]:
    """What the server said, checked; ValueError tells what is wrong with it."""
    if not isinstance(said, dict):
        raise ValueError("it is no JSON object")
    for key, value in said.items():
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
    return said


def parse(text: str) -> Dict[str, Any]:
    """The JSON text of a question, or the file that it names; ValueError."""
    said = json.loads(text)
    if isinstance(said, dict) and list(said) == [FILE_KEY]:
        said = _read_file(said[FILE_KEY])
    return check(said)


def _read_file(path: Any) -> Any:
    try:
        with open(path, encoding="utf-8") as f:
            return json.load(f)
    except (OSError, TypeError) as e:
        raise ValueError("it is in a file that cannot be read: %s" % e) from None


def context_of(said: Dict[str, Any], old: ReplicaContext) -> ReplicaContext:
    return dataclasses.replace(old, **{k: v for k, v in said.items() if k in _TEXTS + _NUMBERS})


def named(given: Given, deployment: str) -> Given:
    """The deployment that is served, where the server did not say its name."""
    if given.context.deployment != ReplicaContext.deployment:
        return given
    return given._replace(context=dataclasses.replace(given.context, deployment=deployment))


def read(environ: MutableMapping[str, str], deployment: Optional[str]) -> Given:
    """From the environment, which is ours alone: children of the worker are no replicas. ValueError."""
    path = environ.pop(FILE_VARIABLE, None)
    text = environ.pop(VARIABLE, None)
    said = check(_read_file(path)) if path else check(json.loads(text or "{}"))
    context = ReplicaContext()
    if deployment:
        context = dataclasses.replace(context, deployment=deployment, replica=deployment + "-0")
    if environ.get("ANYSERVE_REPLICA"):
        context = dataclasses.replace(context, replica=environ["ANYSERVE_REPLICA"])
    options = {**said.get("options", {}), **{k: v for k, v in said.items() if k == WARMUP}}
    return Given(context_of(said, context), said.get("user_config"), options)


os.register_at_fork(after_in_child=lambda: globals().update(_current=None, _become=None))
