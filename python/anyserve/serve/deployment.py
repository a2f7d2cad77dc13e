"""Deployments: what the decorator makes of a class or function, and applications: deployments bound to arguments."""

from __future__ import annotations

import re
import types
from typing import TYPE_CHECKING, Any, Callable, Dict, Mapping, Optional, Tuple, Union, overload

from ._declare import options as _options
from .config import AutoscalingConfig, BackpressureConfig, DeploymentConfig, LoggingConfig

if TYPE_CHECKING:
    from typing import Unpack

    from ._declare.option_types import DeploymentOptions

__all__ = ["Application", "Deployment", "deployment"]

_NAME = re.compile(r"[A-Za-z0-9._-]{1,128}\Z")


class Application:
    """A deployment bound to the arguments of its constructor, which may be applications themselves. `serve.run` deploys it;
    bound into another deployment, that gets a handle of it."""

    def __init__(self, bound_deployment: "Deployment") -> None:
        self._bound_deployment = bound_deployment

    def __repr__(self) -> str:
        return "Application(%s)" % self._bound_deployment.name


def _check_name(name: Any) -> str:
    if not isinstance(name, str):
        raise TypeError("name must be a string.")
    if "#" in name:
        raise ValueError("Deployment names must not contain the '#' character. Current name: %s." % name)
    if not _NAME.match(name):
        raise ValueError("%r is no name of a deployment: 1-128 characters of A-Z a-z 0-9 . _ -; name= gives another" % name)
    return name


def _check_code(func_or_class: Any) -> Any:
    if isinstance(func_or_class, Deployment):
        raise TypeError("%r is a deployment already; use its .options()." % func_or_class)
    if not isinstance(func_or_class, (type, types.FunctionType)):
        raise TypeError("@serve.deployment must be called on a class or function.")
    return func_or_class


def _check_known(options: Mapping[str, Any], where: str) -> None:
    for name in options:
        if name not in _options.BY_NAME:
            import difflib

            similar = difflib.get_close_matches(name, _options.BY_NAME, 1)
            raise TypeError("%s got an unexpected keyword argument %r%s"
                            % (where, name, "; did you mean %r?" % similar[0] if similar else ""))  # fmt: skip
    if "version" in options:
        raise ValueError("`version` in `%s` has been removed. Serve manages deployment versions internally." % where)


def _check_placement(options: Mapping[str, Any]) -> None:
    bundles, most = options.get("placement_group_bundles"), options.get("max_replicas_per_node")
    if most is not None:
        if isinstance(most, bool) or not isinstance(most, int):
            raise TypeError("Get invalid type '%s' for max_replicas_per_node. Expected None or an integer in the range of "
                            "[1, 100]." % type(most))  # fmt: skip
        if not 1 <= most <= 100:
            raise ValueError("Invalid max_replicas_per_node %d. Valid values are None or an integer in the range of [1, 100]."
                             % most)  # fmt: skip
        if bundles is not None:
            raise ValueError("Setting max_replicas_per_node is not allowed when placement_group_bundles is provided.")
    for name in ("placement_group_strategy", "placement_group_bundle_label_selector"):
        if options.get(name) is not None and bundles is None:
            raise ValueError("If `%s` is provided, `placement_group_bundles` must also be provided." % name)


def _check_replicas(given: Mapping[str, Any], set_before: Optional[DeploymentConfig]) -> Dict[str, Any]:
    """num_replicas and autoscaling_config as they belong together."""
    out = dict(given)
    replicas, scaling = out.get("num_replicas"), out.get("autoscaling_config")
    if replicas == "auto":
        fields = AutoscalingConfig.default().model_dump(exclude_unset=True)
        if scaling is not None:
            given_fields = scaling if isinstance(scaling, Mapping) else AutoscalingConfig.model_validate(scaling)
            fields.update(given_fields if isinstance(given_fields, Mapping) else given_fields.model_dump(exclude_unset=True))
        out["autoscaling_config"] = AutoscalingConfig(**fields)
        del out["num_replicas"]
    elif replicas is not None:
        if scaling is not None:
            raise ValueError("Manually setting num_replicas is not allowed when autoscaling_config is provided.")
        if replicas == 0 and not isinstance(replicas, bool):
            raise ValueError("num_replicas is expected to larger than 0")
        if set_before is not None and set_before.autoscaling_config is not None:
            out["autoscaling_config"] = None
    elif "num_replicas" in out:
        del out["num_replicas"]
    return out


class Deployment:
    """A class or function with options. Made by `serve.deployment`; immutable: `options` gives a copy."""

    def __init__(self, name: str, func_or_class: Callable[..., Any], config: DeploymentConfig, actor_options: Dict[str, Any],
                 other: Dict[str, Any], init_args: Tuple[Any, ...] = (), init_kwargs: Optional[Dict[str, Any]] = None,
                 _internal: bool = False) -> None:  # fmt: skip
        if not _internal:
            raise RuntimeError("The Deployment constructor should not be called directly. Use `@serve.deployment` instead.")
        self._name = _check_name(name)
        self._func_or_class, self._deployment_config = func_or_class, config
        self._actor_options, self._other = actor_options, other
        self._init_args, self._init_kwargs = init_args, init_kwargs or {}
        if isinstance(func_or_class, types.FunctionType) and (self._init_args or self._init_kwargs):
            raise ValueError("init_%s not supported for function deployments." % ("args" if self._init_args else "kwargs"))

    @property
    def name(self) -> str:
        return self._name

    @property
    def version(self) -> Optional[str]:
        """None: versions are made by the server."""
        return None

    @property
    def func_or_class(self) -> Callable[..., Any]:
        return self._func_or_class

    @property
    def num_replicas(self) -> Optional[int]:
        return self._deployment_config.num_replicas

    @property
    def user_config(self) -> Any:
        return self._deployment_config.user_config

    @property
    def max_ongoing_requests(self) -> int:
        return self._deployment_config.max_ongoing_requests

    @property
    def max_queued_requests(self) -> int:
        return self._deployment_config.max_queued_requests

    @property
    def backpressure_config(self) -> BackpressureConfig:
        return self._deployment_config.backpressure_config

    @property
    def ray_actor_options(self) -> Dict[str, Any]:
        return {"num_cpus": 1, **self._actor_options} if self._actor_options.get("num_cpus") is None else self._actor_options

    @property
    def init_args(self) -> Tuple[Any, ...]:
        return self._init_args

    @property
    def init_kwargs(self) -> Dict[str, Any]:
        return self._init_kwargs

    @property
    def logging_config(self) -> Optional[LoggingConfig]:
        return self._deployment_config.logging_config

    def set_logging_config(self, logging_config: Union[LoggingConfig, Dict[str, Any]]) -> None:
        self._deployment_config.logging_config = logging_config  # type: ignore[assignment]

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("Deployments cannot be constructed directly. Use `serve.run(%s.bind())` and call its handle, or "
                           "`.func_or_class` for the plain class or function." % self._name)  # fmt: skip

    def bind(self, *args: Any, **kwargs: Any) -> Application:
        """An application: this deployment with these arguments for its constructor."""
        return Application(self._copy(init_args=args, init_kwargs=kwargs))

    def options(self, func_or_class: Optional[Callable[..., Any]] = None,
                **options: "Unpack[DeploymentOptions]") -> "Deployment":  # fmt: skip
        """A copy with other options; those that are not given stay. Those of `serve.deployment`, and func_or_class."""
        given: Dict[str, Any] = dict(options)
        own_args = {k: given.pop("_" + k) for k in ("init_args", "init_kwargs") if "_" + k in given}
        given.pop("_internal", None)
        _check_known(given, "Deployment.options()")
        return self._with(given, func_or_class, **own_args)

    def _copy(self, **changes: Any) -> "Deployment":
        fields = dict(name=self._name, func_or_class=self._func_or_class, config=self._deployment_config.model_copy(),
                      actor_options=self._actor_options, other=self._other, init_args=self._init_args,
                      init_kwargs=self._init_kwargs)  # fmt: skip
        return Deployment(**{**fields, **changes}, _internal=True)

    def _with(self, given: Dict[str, Any], func_or_class: Any = None, init_args: Any = None, init_kwargs: Any = None) -> "Deployment":
        if given.get("max_ongoing_requests", 0) is None:
            raise ValueError("`max_ongoing_requests` must be non-null, got None.")
        for name in ("logging_config", "autoscaling_config"):
            if name in given and given[name] is None and getattr(self._deployment_config, name) is None:
                given = {k: v for k, v in given.items() if k != name}
        for name in ("request_router_config", "backpressure_config"):
            if name in given and given[name] is None:
                given = {**given, name: {}}
        config = self._deployment_config.model_copy()
        other = dict(self._other)
        for name, value in _check_replicas(given, config).items():
            effect = _options.BY_NAME[name].effect
            if effect in (_options.CONFIG, _options.NOT_YET):
                setattr(config, name, value)
            elif effect == _options.KEY:
                _options.check_own_options({name: value})
                other[name] = value
            elif effect == _options.NO_EFFECT:
                other[name] = value
        _check_placement(other)
        return Deployment(
            given.get("name", self._name),
            self._func_or_class if func_or_class is None else _check_code(func_or_class),
            config,
            _options.check_actor_options(given["ray_actor_options"]) if "ray_actor_options" in given else self._actor_options,
            other,
            self._init_args if init_args is None else tuple(init_args),
            self._init_kwargs if init_kwargs is None else dict(init_kwargs),
            _internal=True,
        )

    def keys(self) -> Dict[str, Any]:
        """The keys that a deployment file would have for its options, without the name."""
        for name in _options.names_of(_options.NO_EFFECT):
            if self._other.get(name) is not None:
                _options.say_no_effect(name)
        own = {k: v for k, v in self._other.items() if _options.BY_NAME[k].effect == _options.KEY}
        return _options.keys_of(self._deployment_config, self._actor_options, own)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Deployment):
            return NotImplemented
        return (self._name, self._deployment_config, self._init_args, self._init_kwargs, self._actor_options) == (
            other._name, other._deployment_config, other._init_args, other._init_kwargs, other._actor_options)  # fmt: skip

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "Deployment(name=%s)" % self._name


@overload
def deployment(_func_or_class: Callable[..., Any], /) -> Deployment: ...
@overload
def deployment(**options: "Unpack[DeploymentOptions]") -> Callable[[Callable[..., Any]], Deployment]: ...
def deployment(_func_or_class: Any = None, /, **options: Any) -> Any:
    """Makes a deployment of a class or function, which `serve.run` serves; with or without options.

    A class is constructed once in each replica; its `__call__`, and its other methods, are called by requests. A function
    is what is called. Both may be async, and generators for streams. The guide's page from-ray.md has the table of options.
    """
    _check_known(options, "@serve.deployment")

    def decorate(func_or_class: Callable[..., Any]) -> Deployment:
        _check_code(func_or_class)
        given = dict(options)
        name = given.pop("name", None) or getattr(func_or_class, "__name__", type(func_or_class).__name__)
        return Deployment(name, func_or_class, DeploymentConfig(), {}, {}, _internal=True)._with(given)

    if _func_or_class is not None and not isinstance(_func_or_class, str):  # a text there is ignored, as in Ray
        return decorate(_func_or_class)
    # what is wrong with the options is said where they stand, not where the code follows
    Deployment("deployment", _nothing, DeploymentConfig(), {}, {}, _internal=True)._with(dict(options))
    return decorate


def _nothing() -> None:
    """Stands for the code while options are checked."""
