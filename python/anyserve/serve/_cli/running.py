"""`run`: an application, or those of a config file, until Ctrl-C."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from typing import Any, Dict, Optional

from ...code.serve_target import build_application
from .. import api
from .._driver import deploying
from .._driver.current import driver
from ..deployment import Application
from . import config_file, sending, which
from .say import Refused, refuse, say
from .watch import Watch

__all__ = ["import_value", "run_config", "run_import_path"]


def import_value(import_path: str) -> Any:
    """What an import path names. Refused: there is no such module or attribute."""
    path = config_file.import_target(import_path)
    module_name, _, attribute = path.partition(":")
    if not module_name or not attribute or ":" in attribute:
        refuse('Got invalid import path "%s". It is module:application, or module.application.' % import_path)
    importlib.invalidate_caches()
    try:
        value: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as e:
        if e.name is None or not (module_name == e.name or module_name.startswith(e.name + ".")):
            raise
        refuse("There is no module %r (searched in %s)." % (e.name, ", ".join(p or "." for p in sys.path[:2])))
    for part in attribute.split("."):
        if not hasattr(value, part):
            refuse("%s has no attribute %r." % (module_name, attribute))
        value = getattr(value, part)
    return value


def _application(import_path: str, args: Dict[str, str]) -> Application:
    value = import_value(import_path)
    try:
        return build_application(value, args)
    except (TypeError, ValueError) as e:
        last = e.__traceback__
        while last is not None and last.tb_next is not None:
            last = last.tb_next
        if last is not None and last.tb_frame.f_globals.get("__name__") != build_application.__module__:
            raise  # of the program
        refuse(str(e))


def _end() -> None:
    """A server that was started for this command ends; on another one its applications are deleted."""
    say("Shutting down...")
    server = driver.server
    if server is None or server.is_own:
        api.shutdown()
        return
    for name in driver.applications:
        deploying.delete(server, name, True)


def _failed() -> None:
    traceback.print_exc()
    say("Received unexpected error, see console logs for more details.")
    _end()
    sys.exit(1)


def _follow(watch: Watch, import_path: str, args: Dict[str, str], run: Any) -> None:
    while True:
        watch.wait()
        _forget_modules(watch.folder)
        try:
            run(_application(import_path, args))
        except (Refused, Exception) as e:
            if not isinstance(e, Refused):
                traceback.print_exc()
            say("%sDeploying the latest version of the application failed." % ("%s " % e if isinstance(e, Refused) else ""))


def _forget_modules(folder: str) -> None:
    """Modules below the folder are loaded anew, also those that the application's module imports."""
    top = folder + os.sep
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name != "__main__" and file and os.path.abspath(file).startswith(top):
            del sys.modules[name]


def run_import_path(import_path: str, args: Dict[str, str], runtime_env: Dict[str, Any], *, name: str, route_prefix: str,
                    blocking: bool, reload: bool, watched: str) -> None:  # fmt: skip
    say("Running import path: '%s'." % import_path)
    watch = Watch(watched) if reload else None  # before the import: no change is missed
    app = _application(import_path, args)

    def run(target: Application) -> None:
        api.run(target, blocking=False, name=name, route_prefix=route_prefix, runtime_env=runtime_env or None)

    try:
        run(app)
        if watch is not None:
            _follow(watch, import_path, args, run)
        elif blocking:
            api._wait_for_interrupt()
    except KeyboardInterrupt:
        _end()
    except Exception:
        _failed()
    else:
        _stay()


def _stay() -> None:
    """--non-blocking: a server that was started for it ends with this command, as a local Ray does; any other stays."""
    if driver.server is not None and driver.server.is_own:
        say("The server ends with this command: `start` starts one that stays.")


def run_config(path: str, *, blocking: bool) -> None:
    say("Running config file: '%s'." % path)
    config = config_file.read(path)
    if config.http is not None and "port" in config.http.model_fields_set:
        which.set_port(config.http.port)
    found = which.find_or_none()
    try:
        if found is None:
            api.start(http_options=config.http, grpc_options=config.grpc, logging_config=config.log)
        server = which.find()
        say_unused(config, found is not None)
        sending.send(server, config)
        driver.applications += [a["name"] for a in config.applications if a["name"] not in driver.applications]
        say("Submitted deploy config successfully.")
        if blocking:
            api._wait_for_interrupt()
    except KeyboardInterrupt:
        _end()
    except (RuntimeError, OSError, ValueError):
        _failed()
    else:
        _stay()


def say_unused(config: config_file.Config, runs: bool) -> None:
    """Options of a server count when it starts."""
    given = {"http_options": config.http, "grpc_options": config.grpc, "logging_config": config.log}
    names = [name for name, value in given.items() if value is not None]
    if runs and names:
        url: Optional[str] = driver.server.url if driver.server is not None else None
        say("%s: no effect, the server runs already (%s)." % (", ".join(names), url))
