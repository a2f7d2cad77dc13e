"""A config file of Ray Serve: checked key by key, and as the applications that the server is sent.

Its deployments have the options of `serve.deployment`, which become keys as they do in a program. Keys of our own deployment
files are accepted beside them.
"""

from __future__ import annotations

import difflib
import os
import sys
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Type

from .._declare import options as _options
from .._declare.model import Model
from ..config import AutoscalingPolicy, ControllerOptions, HTTPOptions, LoggingConfig, ProxyLocation, TracingConfig, gRPCOptions
from ..deployment import deployment
from . import yaml_file
from .yaml_file import Document, Path

__all__ = ["Config", "of_import_path", "read"]

TOP = ("proxy_location", "http_options", "grpc_options", "controller_options", "logging_config", "tracing_config", "applications",
       "target_capacity")  # fmt: skip
APPLICATION = ("name", "route_prefix", "import_path", "runtime_env", "host", "port", "deployments", "autoscaling_policy", "args",
               "logging_config", "external_scaler_enabled")  # fmt: skip
OWN_APPLICATION = ("command", "working_dir", "code", "code_exclude", "env", "grpc_servicer_functions", "python")  # go to the server as they are
# Of a deployment that code declares: keys_of() always has them, and here only what the file says counts.
ALWAYS = ("num_replicas", "max_ongoing_requests", "max_queued_requests")


class Config(NamedTuple):
    document: Document
    applications: List[Dict[str, Any]]  # with the keys of a deployment file
    logging: Dict[str, Dict[str, Any]]  # logging_config by application: of its deployments that have none
    http: Optional[HTTPOptions]
    grpc: Optional[gRPCOptions]
    log: Optional[LoggingConfig]
    capacity: Optional[float] = None  # target_capacity


# --- checks ---


def _mapping(doc: Document, path: Path, value: Any) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return value
    doc.wrong(path, "is a mapping, not %r" % (value,))
    return {}


def _known(doc: Document, path: Path, value: Mapping[str, Any], keys: Sequence[str]) -> None:
    for key in value:
        if key not in keys:
            similar = difflib.get_close_matches(str(key), keys, 1)
            doc.wrong((*path, key), "unknown key%s" % ("; did you mean %r?" % similar[0] if similar else ""))


def _model(doc: Document, path: Path, kind: Type[Model], value: Any) -> Any:
    """The model of a mapping, or None, with each field that is wrong named."""
    if value is None:
        return None
    given = _mapping(doc, path, value)
    _known(doc, path, given, tuple(kind._options))
    fields: Dict[str, Any] = {}
    for name in kind._options:
        if name in given:
            try:
                fields[name] = kind._options[name].check(given[name])
            except (ValueError, TypeError) as e:
                doc.wrong((*path, name), str(e))
    try:
        return kind(**fields)
    except (ValueError, TypeError) as e:
        if not doc.is_wrong:
            doc.wrong(path, str(e))
        return None


def _text(doc: Document, path: Path, value: Any) -> None:
    if not isinstance(value, str) or not value:
        doc.wrong(path, "is a text, not %r" % (value,))


# --- deployments ---


def _placeholder() -> None:
    """Stands for the code."""


_ANY = deployment(name="deployment")(_placeholder)


def _deployment(doc: Document, path: Path, value: Any) -> Dict[str, Any]:
    entry = dict(_mapping(doc, path, value))
    known = tuple(n for n in _options.BY_NAME if n != "version") + ("env", "working_dir", "logging_config", "ingress", *_own_keys())
    _known(doc, path, entry, known)
    if "name" not in entry:
        doc.wrong(path, "needs the key 'name'")
    given = {k: v for k, v in entry.items() if k in _options.BY_NAME and (v is not None or k == "user_config")}
    passed = {k: v for k, v in entry.items() if k in known and k not in _options.BY_NAME}
    for name in list(given):  # one by one, so that each problem has its place
        try:
            _ANY.options(**{name: given[name]})
        except (ValueError, TypeError) as e:
            if not (name.startswith("placement_group") and "must also be provided" in str(e)):
                doc.wrong((*path, name), str(e).removeprefix("DeploymentConfig.%s " % name))
                del given[name]
    try:
        keys = _ANY.options(**{k: v for k, v in given.items() if k != "name"}).keys()
    except (ValueError, TypeError) as e:
        doc.wrong(path, str(e))
        return {}
    sets_replicas = "num_replicas" in given or "autoscaling_config" in given
    keep = {k: v for k, v in keys.items() if k not in ALWAYS or k in given or (k == "num_replicas" and sets_replicas)}
    return {"name": entry.get("name"), **keep, **passed}


def _own_keys() -> Tuple[str, ...]:
    return tuple(row.name for row in _options.ACTOR_OPTIONS if row.effect == _options.KEY and row.name != "runtime_env")


# --- applications ---


def _local_path(path: Any) -> Any:
    if not isinstance(path, str):
        return path
    return os.path.abspath(path[len("local://") :] if path.startswith("local://") else path) if _is_local(path) else path


def _is_local(path: str) -> bool:
    return "://" not in path or path.startswith("local://")


def _runtime_env(doc: Document, path: Path, value: Any) -> Dict[str, Any]:
    env = dict(_mapping(doc, path, {} if value is None else value))
    for key, v in env.items():
        if key == "working_dir":
            env[key] = _local_path(v)
        elif key == "py_modules" and isinstance(v, list):
            env[key] = [_local_path(m) for m in v]
        try:
            _options.check_runtime_env({key: env[key]}, "runtime_env")
        except (ValueError, TypeError) as e:
            doc.wrong((*path, key), str(e).partition("runtime_env: ")[2].removeprefix(key + ": "))
    return env


def import_target(text: str) -> str:
    """`module.app`, as Ray has it, too, is `module:app`."""
    if ":" in text or "/" in text or text.endswith(".py"):
        return text
    module, dot, name = text.rpartition(".")
    return "%s:%s" % (module, name) if dot else text


def _check_import_path(doc: Document, path: Path, text: Any) -> None:
    if not isinstance(text, str):
        doc.wrong(path, "is a text, not %r" % (text,))
    elif text.count(":") > 1:
        doc.wrong(path, 'Got invalid import path "%s". An import path may have at most one colon.' % text)
    elif text.startswith(":") or text.endswith(":"):
        doc.wrong(path, 'Got invalid import path "%s". An import path may not start or end with a colon.' % text)
    elif ":" not in text and "." not in text:
        doc.wrong(path, 'Got invalid import path "%s". It is module:application, or module.application.' % text)


def _application(doc: Document, path: Path, value: Any) -> Dict[str, Any]:
    entry = dict(_mapping(doc, path, value))
    _known(doc, path, entry, APPLICATION + OWN_APPLICATION)
    name = entry.get("name", "default")
    _text(doc, (*path, "name"), name)
    for key in ("host", "port"):
        if key in entry:
            doc.wrong((*path, key), '%s %s is set in the config for application `%s`. Please remove it and set %s in the top level '
                      "deploy config only." % (key.title(), entry[key], name, key))  # fmt: skip
    out: Dict[str, Any] = {"name": name}
    if "import_path" in entry:
        _check_import_path(doc, (*path, "import_path"), entry["import_path"])
        out["import_path"] = import_target(str(entry["import_path"]))
    elif "command" not in entry:
        doc.wrong(path, "needs the key 'import_path'")
    prefix = entry.get("route_prefix", "/")
    if prefix is not None:
        _check_prefix(doc, (*path, "route_prefix"), prefix)
        out["route_prefix"] = prefix
    env = _runtime_env(doc, (*path, "runtime_env"), entry.get("runtime_env"))
    if env:
        out["runtime_env"] = env
    if entry.get("args"):
        out["args"] = dict(_mapping(doc, (*path, "args"), entry["args"]))
    out.update({k: v for k, v in entry.items() if k in OWN_APPLICATION and v is not None})
    as_ray = sys.modules.get("anyserve.serve.as_ray")
    if as_ray is not None and isinstance(out.get("env", {}), dict):  # the command `serve` of programs that import ray
        out["env"] = {as_ray.VARIABLE: "1", **out.get("env", {})}
    if "working_dir" not in out and "working_dir" not in env and "command" not in out:
        out["working_dir"] = os.getcwd()
    elif "working_dir" in out and isinstance(out["working_dir"], str):
        out["working_dir"] = os.path.abspath(out["working_dir"])
    if entry.get("autoscaling_policy") is not None:
        _model(doc, (*path, "autoscaling_policy"), AutoscalingPolicy, entry["autoscaling_policy"])
        out["autoscaling_policy"] = entry["autoscaling_policy"]
    if entry.get("external_scaler_enabled"):
        out["external_scaler_enabled"] = entry["external_scaler_enabled"]
    rows = entry.get("deployments") or []
    if not isinstance(rows, list):
        doc.wrong((*path, "deployments"), "is a list, not %r" % (rows,))
        rows = []
    found = [_deployment(doc, (*path, "deployments", i), d) for i, d in enumerate(rows)]
    if found:
        out["deployments"] = found
    return out


def _check_prefix(doc: Document, path: Path, prefix: Any) -> None:
    if not isinstance(prefix, str):
        doc.wrong(path, "is a text, not %r" % (prefix,))
    elif not prefix.startswith("/"):
        doc.wrong(path, 'Got "%s" for route_prefix. Route prefix must start with "/".' % prefix)
    elif len(prefix) > 1 and prefix.endswith("/"):
        doc.wrong(path, 'Got "%s" for route_prefix. Route prefix cannot end with "/" unless the entire prefix is just "/".'
                  % prefix)  # fmt: skip
    elif "{" in prefix or "}" in prefix:
        doc.wrong(path, 'Got "%s" for route_prefix. Route prefix cannot contain wildcards, so it cannot contain "{" or "}".'
                  % prefix)  # fmt: skip


def _check_unique(doc: Document, applications: List[Dict[str, Any]]) -> None:
    for key, what in (("name", "application name"), ("route_prefix", "route prefix")):
        seen: Dict[Any, int] = {}
        for i, a in enumerate(applications):
            value = a.get(key)
            if value is not None and value in seen:
                doc.wrong(("applications", i, key), "%s %r is that of applications[%d], too" % (what, value, seen[value]))
            seen.setdefault(value, i)


# --- the file ---


def _no_effect(doc: Document, top: Mapping[str, Any]) -> None:
    checks: Dict[str, Callable[[Any], Any]] = {"proxy_location": lambda v: ProxyLocation("Disabled" if v == "NoServer" else v)}
    models: Dict[str, Type[Model]] = {"controller_options": ControllerOptions, "tracing_config": TracingConfig}
    for key, kind in models.items():
        _model(doc, (key,), kind, top.get(key))
    for key, check in checks.items():
        if top.get(key) is not None:
            try:
                check(top[key])
            except ValueError as e:
                doc.wrong((key,), str(e))
    for key in (*checks, *models):
        if top.get(key) not in (None, {}, "EveryNode"):
            _options.say_no_effect(key)


def _capacity(doc: Document, value: Any) -> Optional[float]:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 100:
        doc.wrong(("target_capacity",), "is a number from 0 to 100, not %r" % (value,))
        return None
    return value


def read(path: str) -> Config:
    """Reads a file. Refused with every mistake in it, each with its place."""
    doc = yaml_file.load(path)
    top = _mapping(doc, (), doc.value)
    doc.check()
    _known(doc, (), top, TOP)
    rows = top.get("applications")
    if not isinstance(rows, list):
        doc.wrong(("applications",) if "applications" in top else (), "needs `applications`, a list of them")
        rows = []
    applications = [_application(doc, ("applications", i), a) for i, a in enumerate(rows)]
    _check_unique(doc, applications)
    logs: Dict[str, Dict[str, Any]] = {}
    for i, a in enumerate(rows):
        if isinstance(a, Mapping) and a.get("logging_config") is not None:
            config = _model(doc, ("applications", i, "logging_config"), LoggingConfig, a["logging_config"])
            if config is not None:
                logs[applications[i]["name"]] = config.model_dump(mode="json", exclude_unset=True)
    http = _model(doc, ("http_options",), HTTPOptions, top.get("http_options"))
    grpc = _model(doc, ("grpc_options",), gRPCOptions, top.get("grpc_options"))
    if grpc is not None and grpc.grpc_servicer_functions:  # of a server in Ray; here of each application
        for application in applications:
            application["grpc_servicer_functions"] = list(grpc.grpc_servicer_functions)
    log = _model(doc, ("logging_config",), LoggingConfig, top.get("logging_config"))
    capacity = _capacity(doc, top.get("target_capacity"))
    _no_effect(doc, top)
    doc.check()
    return Config(doc, applications, logs, http, grpc, log, capacity)


def of_import_path(import_path: str, name: Optional[str], args: Mapping[str, str], runtime_env: Mapping[str, Any]) -> Config:
    """As if a file had this application."""
    entry: Dict[str, Any] = {"import_path": import_path, "args": dict(args), "runtime_env": dict(runtime_env)}
    if name is not None:
        entry["name"] = name
    doc = Document("the command line", {"applications": [entry]}, {})
    application = _application(doc, ("applications", 0), entry)
    doc.check()
    return Config(doc, [application], {}, None, None, None)
