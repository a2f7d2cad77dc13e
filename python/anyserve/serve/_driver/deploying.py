"""Deploying and deleting applications: what is sent to the server, and following it until the server has done it."""

from __future__ import annotations

import dataclasses
import os
import re
import sys
import time
import uuid
from types import ModuleType
from typing import Any, Dict, List, NoReturn, Optional, Sequence

from ...code.search_path import of_program
from .._declare.options import check_runtime_env
from ..config import LoggingConfig
from ..deployment import Application
from ..exceptions import RayServeException
from ..graph import BuiltDeployment, build, make_handle
from ..handle import DeploymentHandle
from .client import ControlError
from .code import Code, pack
from .current import LoggingOption, as_model, driver, say
from .server import Server

DEFAULT_APPLICATION = "default"
DELETE_TIMEOUT = 60.0  # seconds
BUSY_PAUSE = 0.05  # seconds until a deploy is tried again that met another one
BUSY_TIMEOUT = 600.0


@dataclasses.dataclass(frozen=True)
class RunTarget:
    """One application for `serve.run_many`."""

    target: Application
    name: str = DEFAULT_APPLICATION
    route_prefix: Optional[str] = "/"
    logging_config: LoggingOption = None
    external_scaler_enabled: bool = False
    runtime_env: Optional[Dict[str, Any]] = None


@dataclasses.dataclass
class Built:
    target: RunTarget
    deployments: List[BuiltDeployment]
    code: Code

    @property
    def name(self) -> str:
        return self.target.name

    def handle(self) -> DeploymentHandle[Any]:
        return make_handle(self.deployments[-1].deployment, self.name)  # the ingress comes last


def _check_route_prefix(prefix: Optional[str]) -> None:
    if prefix is None:
        return
    if not isinstance(prefix, str):
        raise TypeError("route_prefix must be a string or None, not %s." % type(prefix).__name__)
    if not prefix.startswith("/"):
        raise ValueError("Invalid route_prefix '%s', must start with a forward slash ('/')." % prefix)
    if prefix != "/" and prefix.endswith("/"):
        raise ValueError("Invalid route_prefix '%s', may not end with a trailing '/'." % prefix)
    if "{" in prefix or "}" in prefix:
        raise ValueError("Invalid route_prefix '%s', may not contain wildcards." % prefix)


def check_target(t: RunTarget) -> None:
    if not isinstance(t.name, str) or not t.name:
        raise RayServeException("Application name must a non-empty string.")
    if not isinstance(t.target, Application):
        raise TypeError("`serve.run` expects an `Application` returned by `Deployment.bind()`.")
    _check_route_prefix(t.route_prefix)
    if t.runtime_env is not None:
        check_runtime_env(t.runtime_env, "runtime_env")


def _label() -> str:
    """Where the code comes from, for people."""
    main = sys.modules.get("__main__")
    file = getattr(main, "__file__", None)
    return os.path.abspath(file) if file else "notebook" if "ipykernel" in sys.modules else "program"


def _as_ray() -> Optional[ModuleType]:
    """as_ray, if this process has it: replicas have it, too, and what ray.init() has set."""
    return sys.modules.get(__package__.rpartition(".")[0] + ".as_ray")


def _application(b: Built) -> Dict[str, Any]:
    """What is deployed, with the keys of a deployment file. A new version each time, so that all replicas are new."""
    as_ray = _as_ray()
    env = b.target.runtime_env or (as_ray.default_runtime_env() if as_ray is not None else {})
    modules = [os.path.dirname(os.path.abspath(os.fspath(m))) for m in env.get("py_modules") or []]
    folder = os.path.abspath(os.fspath(env["working_dir"])) if env.get("working_dir") else os.getcwd()
    search = modules + ([folder] if env.get("working_dir") else []) + of_program()
    variables = {"PYTHONPATH": os.pathsep.join(dict.fromkeys(search)), **(as_ray.environment() if as_ray is not None else {}),
                 **(env.get("env_vars") or {})}  # fmt: skip
    version = uuid.uuid4().hex[:12]
    deployments: List[Dict[str, Any]] = [{"name": d.name, "version": version} for d in b.deployments]
    if b.target.logging_config is not None:
        config = as_model(LoggingConfig, b.target.logging_config).model_dump(mode="json", exclude_unset=True)
        for entry, d in zip(deployments, b.deployments):
            if d.deployment.logging_config is None and config:
                entry["logging_config"] = config
    prefix: Dict[str, Any] = {} if b.target.route_prefix is None else {"route_prefix": b.target.route_prefix}
    if driver.grpc_servicer_functions:
        prefix["grpc_servicer_functions"] = driver.grpc_servicer_functions
    return {"name": b.name, "import_path": _label(), "code": b.code.key, "python": sys.executable, "working_dir": folder,
            "env": variables, **prefix, "deployments": deployments}  # fmt: skip


def _fail(name: str, why: str) -> NoReturn:
    taken = re.search(r'Prefix \S+ is being used by application "[^"]*"\.', why)
    if taken:
        raise RayServeException('%s Failed to deploy application "%s".' % (taken[0], name)) from None
    raise RuntimeError("Deploying application %s failed: %s" % (name, why.strip())) from None


def _put(server: Server, b: Built) -> int:
    """Uploads the code and deploys the application. The generation that serves it. RuntimeError."""
    application = _application(b)
    until = time.monotonic() + BUSY_TIMEOUT
    while True:
        try:
            server.client.upload(b.code.name, b.code.content)
            return int(server.client.put(application)["generation"])
        except ControlError as e:
            busy = e.status in (409, 412) or (e.status == 400 and "its pickled code is missing" in e.text)
            if not busy or time.monotonic() > until:
                _fail(b.name, e.text)
        time.sleep(BUSY_PAUSE)


class Progress:
    """Follows the events until every application is as it was deployed."""

    def __init__(self, server: Server, wanted: Dict[str, int]) -> None:
        self.server, self.wanted = server, dict(wanted)  # application: generation
        self.deployments: Dict[str, Dict[str, Dict[str, Any]]] = {name: {} for name in wanted}
        self.applications: Dict[str, Dict[str, Any]] = {}
        self.messages: Dict[str, str] = {}  # by replica
        self.synced = False

    def wait(self) -> None:
        """RuntimeError: one could not be deployed."""
        for event in self.server.client.events():
            self._take(event)
            if self.synced:
                for name in list(self.wanted):
                    if self._is_done(name):
                        del self.wanted[name]
                if not self.wanted:
                    return

    def _take(self, event: Dict[str, Any]) -> None:
        kind, name = event["kind"], event.get("application", "")
        if kind == "synced":
            self.synced = True
        elif name not in self.wanted:
            return
        elif event["status"] == "GONE":
            {"application": self.applications, "deployment": self.deployments[name]}.get(kind, {}).pop(event.get(kind, ""), None)
        elif kind == "application":
            self.applications[name] = event
        elif kind == "deployment":
            self.deployments[name][event["deployment"]] = event
        elif kind == "replica":
            self._note_replica(event)

    def _note_replica(self, event: Dict[str, Any]) -> None:
        """Says why a process of a replica has ended, each time it does."""
        text = event.get("message", "")
        if not text or event["status"] not in ("WAITING", "STARTING", "DOWN") or not event.get("starts"):
            return
        key = "%s#%s" % (event["application"], event["replica"])
        said = "%s %s" % (event["starts"], text)
        if self.messages.get(key) != said and not self.server.is_own:  # its own log says it
            self.messages[key] = said
            say("replica %s does not start: %s" % (event["replica"], text.strip().splitlines()[-1]))

    def _is_done(self, name: str) -> bool:
        rows, generation = self.deployments[name], self.wanted[name]
        failed = {n: row for n, row in rows.items() if row["status"] == "DEPLOY_FAILED"}
        newest = max([row["generation"] for row in rows.values()], default=generation)
        if newest > generation and not failed:  # an update that failed makes a generation, too: back to what was before
            _fail(name, "it was deployed again by another program (generation %d)." % newest)
        if failed:
            texts = "\n".join("%s: %s" % (n, row["message"].strip()) for n, row in failed.items())
            _fail(name, "Failed to update the deployments %s.\n%s" % (sorted(failed), texts))
        application = self.applications.get(name)
        return application is not None and application["status"] == "RUNNING"


def deploy(server: Server, built: Sequence[Built], wait: bool) -> None:
    began = time.monotonic()
    wanted = {}
    for b in built:
        count = sum(d.deployment.keys().get("num_replicas", 1) for d in b.deployments)
        say("application '%s': %d replica%s of %s"
             % (b.name, count, "" if count == 1 else "s", ", ".join(d.name for d in b.deployments)))  # fmt: skip
        wanted[b.name] = _put(server, b)
        if b.name not in driver.applications:
            driver.applications.append(b.name)
    if not wait:
        return
    Progress(server, wanted).wait()
    for b in built:
        where = "" if b.target.route_prefix is None else " at %s%s" % (server.url, b.target.route_prefix)
        say("application '%s' is ready%s (%.1f s)" % (b.name, where, time.monotonic() - began))


def build_target(t: RunTarget) -> Built:
    check_target(t)
    deployments = build(t.target, t.name)
    return Built(t, deployments, pack(t.name, deployments))


# --- deleting ---


def wait_gone(server: Server, name: str) -> None:
    until = time.monotonic() + DELETE_TIMEOUT
    there, synced = False, False
    for event in server.client.events():
        if event["kind"] == "application" and event["application"] == name:
            there = event["status"] != "GONE"
        synced = synced or event["kind"] == "synced"
        if synced and not there:
            return
        if time.monotonic() > until:
            break
    raise TimeoutError("Some of these applications weren't deleted after 60s: ['%s']" % name)


def delete(server: Server, name: str, blocking: bool) -> None:
    try:
        server.client.delete(name)
    except ControlError as e:
        if e.status != 404:
            raise RuntimeError("Deleting application %s failed: %s" % (name, e.text)) from None
        return
    if blocking:
        wait_gone(server, name)


def delete_all(server: Server) -> None:
    for name in server.client.status()["applications"]:
        delete(server, name, False)
