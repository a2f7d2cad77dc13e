"""`status`, `config` and `build`: what they print."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, Mapping, Optional, Sequence

from ... import __version__
from .. import api, graph
from ..config import LoggingConfig
from ..deployment import Application, Deployment
from . import which, yaml_file
from .running import import_value
from .say import refuse, say

__all__ = ["build", "config", "status"]


def status(name: Optional[str]) -> str:
    which.find()
    found = dataclasses.asdict(api.status())
    if name is None:
        return yaml_file.dump(found)
    if name not in found["applications"]:
        refuse('Application "%s" does not exist.' % name)
    return yaml_file.dump(found["applications"][name])


def config(name: Optional[str]) -> str:
    """The applications that a file has deployed."""
    rows = which.find().client.status()["applications"]
    configs = {n: row["deployed_app_config"] for n, row in rows.items()
               if row.get("source") != "imperative" and row.get("deployed_app_config")}  # fmt: skip
    if name is not None:
        if name not in configs:
            return 'No config has been deployed for application "%s".\n' % name
        return yaml_file.dump(configs[name])
    return "\n---\n\n".join(yaml_file.dump(c) for c in configs.values()) if configs else "No configuration was found.\n"


# --- build ---


def _options(d: Deployment) -> Dict[str, Any]:
    """Those that the code sets."""
    out: Dict[str, Any] = {"name": d.name}
    out.update(d._deployment_config.model_dump(mode="json", exclude_unset=True))
    if out.get("autoscaling_config") is not None:
        out.pop("num_replicas", None)
        policy = out["autoscaling_config"].get("policy")
        if policy:
            out["autoscaling_config"]["policy"] = {**policy, "policy_function": _path_of(policy["policy_function"])}
    router = out.get("request_router_config")
    if router and "request_router_class" in router:
        router["request_router_class"] = _path_of(router["request_router_class"])
    if d._actor_options:
        out["ray_actor_options"] = dict(d._actor_options)
    out.update({k: v for k, v in d._other.items() if v is not None})
    return {k: v for k, v in out.items() if v is not None or k == "user_config"}


def _path_of(value: Any) -> str:
    return value if isinstance(value, str) else "%s:%s" % (value.__module__, value.__qualname__)


def build(import_paths: Sequence[str], grpc: Mapping[str, Any]) -> str:
    """A config file that serves these applications."""
    applications: List[Dict[str, Any]] = []
    for i, path in enumerate(import_paths):
        value = import_value(path)
        if not isinstance(value, Application):
            refuse("Expected '%s' to be an Application but got %s." % (path, type(value)))
        name = "app%d" % (i + 1)
        deployments = [_options(b.deployment) for b in graph.build(value, name)]
        applications.append({"name": name, "route_prefix": "/" if len(import_paths) == 1 else "/" + name, "import_path": path,
                             "runtime_env": {}, "deployments": deployments})  # fmt: skip
    say("The auto-generated application names default to `app1`, `app2`, ... etc. Rename as necessary.\n")
    text = yaml_file.dump({"proxy_location": "EveryNode", "http_options": {"host": "0.0.0.0", "port": 8000},
                           "grpc_options": dict(grpc), "logging_config": LoggingConfig().model_dump(mode="json"),
                           "applications": applications})  # fmt: skip
    return "# This file was generated using the `serve build` command on AnyServe v%s.\n\n%s" % (__version__, text)
