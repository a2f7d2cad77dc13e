"""Hidden deployments: each actor is an application of one replica, and so are the tasks of a program and its store of values.

They have names that begin with PREFIX, which serve.status() leaves out. What a replica of one knows of itself stands in its
environment (`Info`), where other programs of the server find it, too. It ends with the process that has created it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import threading
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

from .._driver import deploying
from .._driver.client import ControlError, NoServer
from .._driver.code import pack
from .._driver.current import driver
from .._driver.server import Server, ServerOptions
from ..api import HIDDEN as PREFIX
from ..deployment import Application, deployment
from ..graph import BuiltDeployment
from . import ACTOR, JOB, default_runtime_env, environment

__all__ = ["PREFIX", "Info", "Row", "create", "delete", "find", "in_use", "locked", "note_end", "rows", "server", "this"]

ENDED: List["Row"] = []  # what this process has ended, for lists of actors
MAX_ENDED = 1000
_held = threading.local()
_created: set[str] = set()  # applications that this process has created, and that are not known to have ended


class Info(NamedTuple):
    """What a hidden replica knows of itself."""

    id: str
    kind: str  # actor, tasks, store
    class_name: str
    name: str = ""
    namespace: str = ""
    end_with: str = ""  # a process; "": it stays until it is deleted
    max_restarts: int = -1  # without end
    methods: Optional[Dict[str, Any]] = None  # and how many results each has


class Row(NamedTuple):
    """A replica, as the server has it."""

    application: str
    deployment: str
    replica: str
    state: str
    pid: int
    starts: int
    info: Optional[Info]  # None: of a deployment that serve.run has deployed


def this() -> Optional[Info]:
    """What this process is. None: no hidden replica."""
    text = os.environ.get(ACTOR)
    return Info(**json.loads(text)) if text else None


def server() -> Server:
    """The server, which is started if none runs."""
    return driver.find_or_start(ServerOptions())


def in_use() -> bool:
    """Whether there is something that this process has created, and that has not ended as far as it knows."""
    return bool(_created)


@contextlib.contextmanager
def locked() -> Iterator[Server]:
    """While it is held, no other thread of any process looks whether something exists and creates it."""
    found = server()
    if getattr(_held, "here", False):  # what is created refers to what must be created, too
        yield found
        return
    fd = os.open(os.path.join(found.folder, "driver-token"), os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        _held.here = True
        yield found
    finally:
        _held.here = False
        os.close(fd)


# --- creating ---


def _runtime_env_of(info: Info, given: Optional[Dict[str, Any]]) -> Dict[str, Any]:
    env = dict(default_runtime_env() if given is None else given)
    text = json.dumps({k: v for k, v in info._asdict().items() if v not in ("", None)})
    env["env_vars"] = {**environment(), **(env.get("env_vars") or {}), ACTOR: text}
    return env


def create(application: str, info: Info, code: type, args: Tuple[Any, ...] = (), kwargs: Optional[Dict[str, Any]] = None,
           options: Optional[Dict[str, Any]] = None, runtime_env: Optional[Dict[str, Any]] = None) -> str:  # fmt: skip
    """Deploys it, and does not wait until it runs: calls wait for it. The name of the deployment. TypeError: something cannot
    be pickled."""
    name = re.sub("[^A-Za-z0-9._-]", "_", info.class_name)[:128] or "actor"
    made = deployment(name=name, max_queued_requests=-1, max_constructor_retry_count=1, warm_spares=0, **(options or {}))(code)
    built = BuiltDeployment(name, made, args, kwargs or {}, True)
    target = deploying.RunTarget(Application(made), application, None, runtime_env=_runtime_env_of(info, runtime_env))
    _created.add(application)
    try:
        deploying._put(server(), deploying.Built(target, [built], pack(application, [built])))
    except BaseException:
        _created.discard(application)
        raise
    return name


# --- what there is ---


def _info_of(application: Dict[str, Any]) -> Optional[Info]:
    config = application.get("deployed_app_config") or {}  # None: it ends
    text = (config.get("env") or {}).get(ACTOR)
    return Info(**json.loads(text)) if text else None


def rows(found: Optional[Server] = None) -> List[Row]:
    """All replicas of the server, hidden ones and others. None, if no server runs."""
    found = found or driver.find()
    if found is None:
        return []
    try:
        applications = found.client.status()["applications"]
    except NoServer:
        return []
    out: List[Row] = []
    for name, application in applications.items():
        info = _info_of(application) if name.startswith(PREFIX) else None
        if info is None and name.startswith(PREFIX):
            continue
        for d, row in application["deployments"].items():
            for r in row.get("replicas") or []:
                out.append(Row(name, d, r["replica_id"], r["state"], r.get("pid") or 0, r.get("starts", 1), info))
    return out


def exists(found: Server, application: str) -> bool:
    return application in found.client.status()["applications"]


def find(name: str, namespace: str) -> Optional[Row]:
    """A named actor."""
    for row in rows():
        if row.info is not None and row.info.kind == "actor" and (row.info.name, row.info.namespace) == (name, namespace):
            return row
    return None


def message_of(application: str) -> str:
    """Why it does not run, as the server knows it."""
    found = driver.find()
    if found is None:
        return ""
    try:
        row = found.client.status()["applications"].get(application)
    except NoServer:
        return ""
    return "\n".join(d.get("message", "") for d in (row or {"deployments": {}})["deployments"].values()).strip()


# --- the end ---


def note_end(row: Row) -> None:
    """It is listed as dead from now on, in this process."""
    ENDED.append(row._replace(state="DOWN"))
    del ENDED[:-MAX_ENDED]


def delete(application: str, wait: bool = False) -> None:
    """Ends it after the calls that it has. Nothing happens if it is not there."""
    _created.discard(application)
    found = driver.find()
    if found is None:
        return
    try:
        found.client.delete(application)
        if wait:
            deploying.wait_gone(found, application)
    except ControlError as e:
        if e.status != 404:
            raise RuntimeError("Ending the actor failed: %s" % e.text) from None
    except NoServer:
        pass


def delete_all() -> None:
    """Ends all that this process has created."""
    for application in list(_created):
        delete(application)


def job_application(kind: str) -> str:
    """The application of this program's tasks, or of its store."""
    environment()
    return "%s%s.%s" % (PREFIX, os.environ[JOB], kind)
