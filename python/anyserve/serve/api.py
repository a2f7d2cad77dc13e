"""serve.run and what belongs to it: which server there is, which applications it serves, and handles of them."""

from __future__ import annotations

import logging
import os
import platform
import sys
import threading
from collections import Counter
from types import ModuleType
from typing import Any, Dict, List, Optional, Sequence, Union

from ..code.policy_code import base_of
from ._driver import deploying
from ._driver.client import NoServer
from ._driver.current import ControllerOption, LoggingOption, driver, no_effect, say, server_options, servicer_functions
from ._driver.deploying import DEFAULT_APPLICATION, RunTarget
from ._driver.server import ServerOptions
from .config import HTTPOptions, ProxyLocation, TracingConfig, gRPCOptions
from .deployment import Application
from .exceptions import RayServeException
from .handle import DeploymentHandle
from .schema import (ApplicationStatus, ApplicationStatusOverview, DeploymentStatus, DeploymentStatusOverview,
                     DeploymentStatusTrigger, ProxyStatus, ServeStatus)  # fmt: skip

__all__ = ["RunTarget", "delete", "get_app_handle", "get_deployment_handle", "run", "run_many", "shutdown", "shutdown_async",
           "start", "status"]  # fmt: skip

logger = logging.getLogger("anyserve.serve")

HIDDEN = "__ray__."  # names of applications that are actors and tasks begin so (as_ray)


# --- the server ---


def start(proxy_location: Union[None, str, ProxyLocation] = None,
          http_options: Union[None, Dict[str, Any], HTTPOptions] = None,
          grpc_options: Union[None, Dict[str, Any], gRPCOptions] = None,
          logging_config: LoggingOption = None,
          tracing_config: Union[None, Dict[str, Any], TracingConfig] = None,
          controller_options: ControllerOption = None,
          **kwargs: Any) -> None:  # fmt: skip
    """Starts the server, if none runs for this user's runtime directory and the port. `serve.run` does it, too, with defaults.

    http_options: host, port (default 8000, or $ANYSERVE_PORT) and request_timeout_s; gRPC clients use the same port.
    grpc_options: its port is a second one for gRPC; `grpc_servicer_functions` are the gRPC services of the applications that
        this program deploys from then on.
    detached: the server runs in the background, and outlives this program; default: it ends with it.
    The other options are those of Ray Serve, and have no effect on one machine.
    """
    detached = kwargs.pop("detached", False)
    if kwargs:
        raise TypeError("start() got an unexpected keyword argument %r" % next(iter(kwargs)))
    no_effect("proxy_location", proxy_location)
    no_effect("tracing_config", tracing_config)
    no_effect("controller_options", controller_options)
    driver.grpc_servicer_functions = servicer_functions(grpc_options)
    driver.find_or_start(server_options(http_options, grpc_options, logging_config), bool(detached))


def shutdown() -> None:
    """Ends the server that this program has started, or one that serve.start(detached=True) has. Of any other server the
    applications that this program has deployed are deleted. Waits for the end. Does nothing if no server runs."""
    local = _local()
    if local is not None:
        local.shutdown()
    with driver.lock:
        server, applications = driver.find(), list(driver.applications)
    if server is None:
        logger.info("Nothing to shut down. There's no Serve application running.")
        return
    in_replica = "ANYSERVE_LINK" in os.environ
    hidden = _hidden()
    if hidden is not None and hidden.in_use():  # actors and tasks stay, and with them the server
        for name in server.client.status()["applications"]:
            if not name.startswith(hidden.PREFIX):
                deploying.delete(server, name, True)
        driver.applications = []
        return
    if not in_replica and (server.is_own or server.is_detached()):
        if not server.is_own:
            deploying.delete_all(server)
        driver.forget()
        server.end()
        return
    for name in applications:
        deploying.delete(server, name, True)
    driver.forget()


async def shutdown_async() -> None:
    """The same, for code that runs on an event loop."""
    import asyncio

    await asyncio.get_running_loop().run_in_executor(None, shutdown)


def _local() -> Optional[ModuleType]:
    """Local testing mode, if this process has used it."""
    return sys.modules.get(__package__ + ".local_testing")


def _hidden() -> Optional[ModuleType]:
    """Actors and tasks, if this process has used some."""
    return sys.modules.get(__package__ + ".as_ray._hidden")


# --- deploying ---


def _run_many(targets: Sequence[RunTarget], wait_for_ingress_deployment_creation: bool = True,
              wait_for_applications_running: bool = True, _local_testing_mode: bool = False,
              controller_options: ControllerOption = None) -> List[DeploymentHandle[Any]]:  # fmt: skip
    if not targets:
        raise ValueError("No applications provided.")
    if _local_testing_mode or os.environ.get("RAY_SERVE_FORCE_LOCAL_TESTING_MODE", "0") == "1":
        for t in targets:
            deploying.check_target(t)
        from . import local_testing

        return [local_testing.run(t.target, t.name, t.route_prefix, t.logging_config) for t in targets]
    built = [deploying.build_target(t) for t in targets]  # what is wrong with the program is said before anything starts
    no_effect("controller_options", controller_options)
    last = {b.name: b for b in built}
    deploying.deploy(driver.find_or_start(ServerOptions()), list(last.values()), wait_for_applications_running)
    return [b.handle() for b in built]


def _run(target: Application, *, _blocking: bool = True, name: str = DEFAULT_APPLICATION, route_prefix: Optional[str] = "/",
         logging_config: LoggingOption = None, _local_testing_mode: bool = False, external_scaler_enabled: bool = False,
         controller_options: ControllerOption = None,
         runtime_env: Optional[Dict[str, Any]] = None) -> DeploymentHandle[Any]:  # fmt: skip
    t = RunTarget(target, name, route_prefix, logging_config, external_scaler_enabled, runtime_env)
    return _run_many([t], wait_for_applications_running=_blocking, _local_testing_mode=_local_testing_mode,
                     controller_options=controller_options)[0]  # fmt: skip


def _wait_for_interrupt() -> None:
    """Until Ctrl-C, or until the server has ended."""
    server, never = driver.server, threading.Event()
    try:
        say("Ctrl-C ends this program.")
        if server is not None and server.is_own and server.process is not None:
            while server.process.poll() is None:  # a signal that comes just before a wait does not end that wait
                never.wait(0.2)
            raise RuntimeError("The server has ended (exit code %s)." % server.process.returncode)
        while True:
            never.wait(1.0)
    except KeyboardInterrupt:
        logger.warning("Got KeyboardInterrupt, exiting...")
        raise


def run(target: Application, blocking: bool = False, name: str = DEFAULT_APPLICATION, route_prefix: Optional[str] = "/",
        logging_config: LoggingOption = None, _local_testing_mode: bool = False, external_scaler_enabled: bool = False,
        controller_options: ControllerOption = None,
        runtime_env: Optional[Dict[str, Any]] = None) -> DeploymentHandle[Any]:  # fmt: skip
    """Serves an application, and returns the handle of its ingress deployment when all its replicas are ready.

    target: what `Deployment.bind()` returns.
    blocking: waits for Ctrl-C then.
    name: an application of this name is replaced: new replicas start, and then the former ones end, without a lost request.
        Others stay.
    route_prefix: the path below which HTTP requests go to it; None: none do.
    logging_config: of deployments that have none of their own.
    runtime_env: `env_vars`, `working_dir` and `py_modules` of its replicas. Default: the environment, the folder and the
        search path of this program.

    If no server runs, one is started, which ends with this program. RuntimeError: a replica does not start; the text has the
    traceback.
    """
    handle = _run(target, name=name, route_prefix=route_prefix, logging_config=logging_config,
                  _local_testing_mode=_local_testing_mode, external_scaler_enabled=external_scaler_enabled,
                  controller_options=controller_options, runtime_env=runtime_env)  # fmt: skip
    if blocking:
        _wait_for_interrupt()
    return handle


def run_many(targets: Sequence[RunTarget], blocking: bool = False, wait_for_ingress_deployment_creation: bool = True,
             wait_for_applications_running: bool = True, _local_testing_mode: bool = False,
             controller_options: ControllerOption = None) -> List[DeploymentHandle[Any]]:  # fmt: skip
    """Serves several applications; their replicas start side by side. Handles in the order of the targets. Of targets with one
    name the last is served."""
    handles = _run_many(targets, wait_for_ingress_deployment_creation, wait_for_applications_running, _local_testing_mode,
                        controller_options)  # fmt: skip
    if blocking:
        _wait_for_interrupt()
    return handles


def delete(name: str, _blocking: bool = True) -> None:
    """Deletes an application; an unknown name is fine. Waits until its replicas have ended, if it is to block."""
    local = _local()
    if local is not None and local.find_handle(name) is not None:
        local.delete(name)
        return
    server = driver.need()
    deploying.delete(server, name, _blocking)
    with driver.lock:
        if name in driver.applications:
            driver.applications.remove(name)


# --- what there is ---

_REPLICA_STATES = {"WAITING": "STARTING", "STARTING": "STARTING", "RUNNING": "RUNNING", "UPDATING": "UPDATING", "LOST": "RECOVERING",
                   "KILLED": "STOPPING", "DRAINING": "STOPPING", "STOPPING": "STOPPING", "DOWN": "STOPPED"}  # fmt: skip


def _deployment_overview(row: Dict[str, Any]) -> DeploymentStatusOverview:
    replicas = row.get("replicas") or []
    states = Counter(_REPLICA_STATES.get(r["state"], "STOPPED") for r in replicas)
    return DeploymentStatusOverview(DeploymentStatus(row["status"]), DeploymentStatusTrigger(row["status_trigger"]),
                                    dict(states), row["message"])  # fmt: skip


def _application_overview(row: Dict[str, Any]) -> ApplicationStatusOverview:
    deployments = {name: _deployment_overview(d) for name, d in row["deployments"].items()}
    # a policy process is no deployment of the program's, unless it is why the application has failed
    deployments = {n: d for n, d in deployments.items() if base_of(n) is None or d.status == DeploymentStatus.DEPLOY_FAILED}
    failed = sorted(n for n, d in deployments.items() if d.status == DeploymentStatus.DEPLOY_FAILED)
    message = "Failed to update the deployments %s." % failed if failed else row.get("message", "")
    since = row.get("last_deployed_time_s", 0.0)
    return ApplicationStatusOverview(ApplicationStatus(row["status"]), message, since, deployments)


def status() -> ServeStatus:
    """The states of all applications of the server; empty if none runs."""
    server = driver.find()
    if server is None:
        return ServeStatus()
    try:
        found = server.client.status()
    except NoServer:
        return ServeStatus()
    return ServeStatus({platform.node(): ProxyStatus.HEALTHY},
                       {name: _application_overview(row) for name, row in found["applications"].items()
                        if not name.startswith(HIDDEN)},
                       found.get("target_capacity"))  # fmt: skip


def _find_locally(application: str, deployment: Optional[str] = None) -> Optional[DeploymentHandle[Any]]:
    local = _local()
    return None if local is None else local.find_handle(application, deployment)


def _handle_of(name: str, application: str, row: Dict[str, Any]) -> DeploymentHandle[Any]:
    """The handle of a deployment that the server has described so."""
    config = (row.get("deployment_config") or {}).get("backpressure_config") or {}
    return DeploymentHandle(name, application, _refusal=(config.get("status_code", 503), config.get("retry_after_s")))


def get_app_handle(name: str) -> DeploymentHandle[Any]:
    """The handle of an application's ingress deployment. RayServeException: there is no such application."""
    found = _find_locally(name)
    if found is not None:
        return found
    application = driver.need().client.status()["applications"].get(name)
    if not application or not application["deployments"]:
        raise RayServeException("Application '%s' does not exist." % name)
    deployments = {n: d for n, d in application["deployments"].items() if base_of(n) is None}
    ingress = [n for n, row in deployments.items() if row.get("ingress")] or list(deployments)[-1:]
    return _handle_of(ingress[0], name, deployments[ingress[0]])


def get_deployment_handle(deployment_name: str, app_name: Optional[str] = None, _check_exists: bool = True,
                          _record_telemetry: bool = True) -> DeploymentHandle[Any]:  # fmt: skip
    """The handle of a deployment. app_name: default in a replica: its application. KeyError: there is no such deployment."""
    found = _find_locally(app_name, deployment_name) if app_name is not None else None
    if found is not None:
        return found
    server = driver.need()
    if app_name is None:
        if "ANYSERVE_LINK" not in os.environ:
            raise RayServeException("Please specify an application name when getting a deployment handle "
                                    "outside of a Serve application.")  # fmt: skip
        from ..replica import get_replica_context

        app_name = get_replica_context().application
    if _check_exists:
        try:
            deployments = server.client.status()["applications"].get(app_name, {}).get("deployments", {})
        except NoServer:
            if "ANYSERVE_LINK" not in os.environ:
                raise
            return DeploymentHandle(deployment_name, app_name)  # an upgrade: a call of an unknown deployment fails later
        if deployment_name not in deployments:
            raise KeyError("Deployment(name='%s', app='%s') does not exist." % (deployment_name, app_name))
        return _handle_of(deployment_name, app_name, deployments[deployment_name])
    return DeploymentHandle(deployment_name, app_name)
