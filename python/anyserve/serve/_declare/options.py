"""The table of a deployment's options: what each is called, and what becomes of it.

The types that editors complete (`option_types.py`) are made from it by tools/gen_serve_options.py, and so is the table in
docs/guide/from-ray.md. Defaults and bounds are in config.DeploymentConfig and in the server's table of keys.
"""

from __future__ import annotations

import logging
import os
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

from ..config import AutoscalingConfig, DeploymentConfig, LoggingConfig, RequestRouterConfig, path_of

__all__ = ["ACTOR_OPTIONS", "Option", "OPTIONS", "check_actor_options", "check_own_options", "keys_of", "say_no_effect"]

logger = logging.getLogger("anyserve.serve")

# What becomes of an option.
CONFIG = "config"  # a field of DeploymentConfig; goes to a key
KEY = "key"  # of ours alone: goes to the key of its name
ACTOR = "actor"  # ray_actor_options
NO_EFFECT = "no effect"  # accepted; said once in the log
NOT_YET = "not yet"  # an error
REMOVED = "removed"  # an error in Ray, too
NAME = "name"


class Option(NamedTuple):
    name: str
    type: str  # as in a signature
    effect: str
    doc: str
    key: str = ""  # of the deployment file, if it has another name


# fmt: off
OPTIONS: Tuple[Option, ...] = (
    Option("name", "str", NAME, "name of the deployment, unique in its application; default: that of the class or function"),
    Option("version", "str", REMOVED, "an error: versions are made by the server"),
    Option("num_replicas", "Union[int, Literal['auto'], None]", CONFIG, "processes that serve it; `auto`: by autoscaling_config"),
    Option("ray_actor_options", "Union[RayActorOptions, Dict[str, Any], None]", ACTOR, "resources and environment of each replica"),
    Option("placement_group_bundles", "Optional[List[Dict[str, float]]]", NO_EFFECT, "where replicas run in a cluster"),
    Option("placement_group_strategy", "Optional[str]", NO_EFFECT, "where replicas run in a cluster"),
    Option("placement_group_bundle_label_selector", "Optional[List[Dict[str, str]]]", NO_EFFECT, "where replicas run in a cluster"),
    Option("max_replicas_per_node", "Optional[int]", NO_EFFECT, "where replicas run in a cluster"),
    Option("user_config", "Any", CONFIG, "what `reconfigure` of the class gets; anything JSON has"),
    Option("max_ongoing_requests", "int", CONFIG, "requests that one replica executes at once"),
    Option("max_queued_requests", "int", CONFIG, "requests that may wait for the deployment; -1: no limit"),
    Option("backpressure_config", "Union[BackpressureConfig, Dict[str, Any], None]", CONFIG, "the HTTP answer to requests beyond max_queued_requests"),
    Option("autoscaling_config", "Union[AutoscalingConfig, Dict[str, Any], None]", CONFIG, "the number of replicas follows the load"),
    Option("graceful_shutdown_wait_loop_s", "float", CONFIG, "time between two checks whether a replica that ends is idle"),
    Option("graceful_shutdown_timeout_s", "float", CONFIG, "time that a replica has to finish its requests"),
    Option("health_check_period_s", "float", CONFIG, "how often `check_health` of the class is called"),
    Option("health_check_timeout_s", "float", CONFIG, "time in which `check_health` must return"),
    Option("logging_config", "Union[LoggingConfig, Dict[str, Any], None]", CONFIG, "logs of the replicas"),
    Option("request_router_config", "Union[RequestRouterConfig, Dict[str, Any], None]", CONFIG, "which replica gets a request: a policy by name, or a router of the program"),
    Option("max_constructor_retry_count", "int", CONFIG, "how often a constructor that fails is called again"),
    Option("gang_scheduling_config", "None", NOT_YET, "replicas that start together"),
    Option("deployment_actors", "None", NOT_YET, "actors that replicas share"),
    Option("rolling_update_percentage", "float", CONFIG, "part of the replicas that an update replaces at once, up to 1"),
    Option("max_surge_percent", "int", CONFIG, "replicas beyond num_replicas in an update, in percent"),
    # ours
    Option("max_queued_requests_per_caller", "bool", CONFIG, "max_queued_requests is for each caller, as in Ray, not for the deployment"),
    Option("priority_share", "int", KEY, "of so many calls one is for a lower priority"),
    Option("fairness", "str", KEY, "`tenant`: equal shares for tenants"),
    Option("fairness_cost", "str", KEY, "what tenants have equal shares of: `requests`, `items` or `header`"),
    Option("codel_target_s", "float", KEY, "waiting time beyond which requests are shed under overload; 0: off"),
    Option("codel_interval_s", "float", KEY, "how long an overload lasts before requests are shed"),
    Option("slow_start_s", "float", KEY, "time in which a new replica gets all of its slots; 0: off"),
    Option("adaptive_concurrency", "bool", KEY, "fewer requests at once while more only make them slower"),
    Option("hedge_quantile", "float", KEY, "a request that runs for longer than this part of them goes to a second replica, too; 0: off"),
    Option("hedge_budget", "float", KEY, "the part of the requests that do so, at most"),
    Option("hedge_min_delay_s", "float", KEY, "how long a request runs before it does so, at least"),
    Option("idempotent", "bool", KEY, "requests may be executed again when a replica dies"),
    Option("request_timeout_s", "float", KEY, "deadline of a request that has none; 0: none"),
    Option("execution_timeout_s", "float", KEY, "a replica that executes one request for longer is replaced; 0: off"),
    Option("health_check_failure_threshold", "int", KEY, "failures in a row after which a replica is replaced"),
    Option("fallback", "str", KEY, "deployment that gets tensor requests which this one cannot serve now"),
    Option("canary_percent", "float", KEY, "part of the tensor requests without a version that it gets"),
    Option("mirror_percent", "float", KEY, "part of the tensor requests of which it gets copies"),
    Option("max_restarts", "int", KEY, "how often a replica that fails to start is started again at once"),
    Option("warm_spares", "int", KEY, "processes that wait to replace a dead replica"),
    Option("max_surge", "Union[int, str]", KEY, "processes beyond num_replicas in an update: a number or `25%`"),
    Option("max_unavailable", "Union[int, str]", KEY, "replicas that may be missing in an update: a number or `25%`"),
    Option("cpu_affinity", "str", KEY, "CPUs on which replicas run: `0-3,8` or `auto`"),
    Option("warmup_requests", "List[Dict[str, Any]]", KEY, "tensor requests that a new replica executes first"),
)

ACTOR_OPTIONS: Tuple[Option, ...] = (
    Option("num_cpus", "Optional[float]", KEY, "threads of numerical libraries (OMP_NUM_THREADS, …)"),
    Option("num_gpus", "Optional[float]", KEY, "devices in CUDA_VISIBLE_DEVICES, or a part of one"),
    Option("memory", "Optional[float]", KEY, "bytes; a replica that uses more is killed"),
    Option("runtime_env", "Dict[str, Any]", KEY, "env_vars, working_dir and py_modules; another key is an error", "env, working_dir"),
    Option("resources", "Dict[str, float]", NO_EFFECT, "custom resources of a cluster's nodes"),
    Option("accelerator_type", "Optional[str]", NO_EFFECT, "which nodes of a cluster"),
    Option("label_selector", "Optional[Dict[str, str]]", NO_EFFECT, "which nodes of a cluster"),
    Option("fallback_strategy", "Optional[List[Dict[str, Any]]]", NO_EFFECT, "which nodes of a cluster"),
)
# fmt: on

BY_NAME: Dict[str, Option] = {row.name: row for row in OPTIONS}
_ACTOR_BY_NAME: Dict[str, Option] = {row.name: row for row in ACTOR_OPTIONS}
RUNTIME_ENV = ("env_vars", "working_dir", "py_modules")

_said: set[str] = set()


def say_no_effect(name: str, why: str = "there is one machine") -> None:
    """Once for each option in a process."""
    if name not in _said:
        _said.add(name)
        logger.warning("%s has no effect: %s.", name, why)


def check_runtime_env(env: Any, where: str) -> Dict[str, Any]:
    """A runtime_env that can be honoured. ValueError, TypeError."""
    if not isinstance(env, Mapping):
        raise TypeError("%s is a dict, not %r" % (where, env))
    for key, value in env.items():
        if key not in RUNTIME_ENV:
            raise ValueError("%s: %r is not supported; %s are" % (where, key, ", ".join(RUNTIME_ENV)))
        if key == "env_vars":
            if not isinstance(value, Mapping) or not all(isinstance(t, str) for pair in value.items() for t in pair):
                raise TypeError("%s: env_vars is a dict of texts, not %r" % (where, value))
            continue
        for path in [value] if key == "working_dir" else value if isinstance(value, (list, tuple)) else [None]:
            if not isinstance(path, (str, os.PathLike)):
                raise TypeError("%s: %s is %s, not %r"
                                % (where, key, "a path" if key == "working_dir" else "a list of paths", value))  # fmt: skip
            if "://" in os.fspath(path):
                raise ValueError("%s: %s: %r is a URI; only folders of this machine are supported" % (where, key, path))
    return dict(env)


def check_actor_options(options: Any) -> Dict[str, Any]:
    """`ray_actor_options`, checked. ValueError, TypeError."""
    if options is None:
        return {}
    if not isinstance(options, Mapping):
        raise TypeError('Got invalid type "%s" for ray_actor_options. Expected a dictionary.' % type(options))
    for name, value in options.items():
        if name not in _ACTOR_BY_NAME:
            raise ValueError("Specifying '%s' in ray_actor_options is not allowed. Allowed options: %s"
                             % (name, sorted(_ACTOR_BY_NAME)))  # fmt: skip
        if name in ("num_cpus", "num_gpus", "memory") and value is not None:
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0:
                raise ValueError("ray_actor_options: %s is a number of 0 or more, not %r" % (name, value))
            if value and name != "memory" or (name == "memory" and value):
                check_own_options({name: value if name != "memory" else int(value)}, "ray_actor_options: ")
    if "runtime_env" in options:
        check_runtime_env(options["runtime_env"], "ray_actor_options: runtime_env")
    return dict(options)


def check_own_options(options: Mapping[str, Any], where: str = "") -> None:
    """Checks values of keys by the server's table. ValueError."""
    from ...errors import DeclarationError
    from ...spec import Deployment

    for name, value in options.items():
        try:
            Deployment("deployment", **{name: value})
        except DeclarationError as e:
            text = str(e)
            raise ValueError(where + (text[text.index(name) :] if name in text else "%s: %s" % (name, text))) from None


def search_path_with(modules: Any) -> str:
    """PYTHONPATH that finds these modules, and what this process finds."""
    from ...code.search_path import of_program

    first = [os.path.dirname(os.path.abspath(os.fspath(m))) for m in modules]
    return os.pathsep.join(dict.fromkeys(first + of_program()))


def _keys_of_runtime_env(env: Mapping[str, Any]) -> Dict[str, Any]:
    keys: Dict[str, Any] = {}
    if env.get("env_vars"):
        keys["env"] = dict(env["env_vars"])
    if env.get("py_modules"):
        keys.setdefault("env", {}).setdefault("PYTHONPATH", search_path_with(env["py_modules"]))
    if env.get("working_dir"):
        keys["working_dir"] = os.path.abspath(os.fspath(env["working_dir"]))
    return keys


def _keys_of_actor_options(options: Mapping[str, Any]) -> Dict[str, Any]:
    keys: Dict[str, Any] = {}
    for name, value in options.items():
        if _ACTOR_BY_NAME[name].effect == NO_EFFECT:
            if value:
                say_no_effect("ray_actor_options: " + name)
        elif name == "runtime_env":
            keys.update(_keys_of_runtime_env(value))
        elif name == "memory":
            if value:
                keys["memory"] = int(value)
        elif value is not None and (value or name == "num_gpus"):
            keys[name] = value
    return keys


def _value_of_config(name: str, value: Any) -> Any:
    if isinstance(value, RequestRouterConfig):
        return {**value.model_dump(mode="json"), "request_router_class": path_of(value.request_router_class)}
    if isinstance(value, AutoscalingConfig):
        out = value.model_dump(mode="json", exclude_none=True)
        out["policy"]["policy_function"] = path_of(value.policy.policy_function)
        if not value.schedule:
            del out["schedule"]
        return out
    if isinstance(value, LoggingConfig):
        return value.model_dump(mode="json", exclude_unset=True)
    return value.model_dump(mode="json", exclude_none=True) if hasattr(value, "model_dump") else value


def keys_of(config: DeploymentConfig, actor_options: Mapping[str, Any], own: Mapping[str, Any]) -> Dict[str, Any]:
    """The keys of a deployment file for these options: those that were given, and those whose default is another here."""
    keys: Dict[str, Any] = {}
    for row in OPTIONS:
        if row.effect == CONFIG and row.name in config.model_fields_set:
            value = getattr(config, row.name)
            if value is not None or row.name == "user_config":
                keys[row.key or row.name] = _value_of_config(row.name, value)
    keys["max_ongoing_requests"] = config.max_ongoing_requests
    keys["max_queued_requests"] = config.max_queued_requests
    if config.autoscaling_config is None:
        keys["num_replicas"] = 1 if config.num_replicas is None else config.num_replicas
    if not keys.get("logging_config", True):
        del keys["logging_config"]
    keys.update(_keys_of_actor_options(actor_options))
    keys.update(own)
    return {name: value for name, value in keys.items() if value is not None}


def names_of(effect: str) -> List[str]:
    return [row.name for row in OPTIONS if row.effect == effect]
