"""`serve.ingress`: a class whose requests of HTTP are answered by an ASGI application.

    app = FastAPI()

    @serve.deployment
    @serve.ingress(app)
    class Api:
        @app.get("/{name}")
        async def greet(self, name: str): ...

The application is frozen when the decorator runs: a copy, by pickle, is what replicas get. Routes that are methods of the class
get its object as `self`. A function is called in each replica, and returns the application. FastAPI is used where the
application is one; it is not needed otherwise.
"""

from __future__ import annotations

import collections.abc
import inspect
import sys
from typing import Any, Callable, Iterator, Optional, Tuple, Type

from ..exceptions import RayServeException
from .lifespan import Lifespan
from .scope import ASGIApp, Receive, Scope, Send

BUILD = "__serve_build_asgi_app__"  # a method of the class that returns the application
_OF_CLASS = "_serve_cls"  # an endpoint says of which class it is a method
_COPIED = ("__name__", "__qualname__", "__module__", "__doc__")


class ASGIAppReplicaWrapper:
    """The base of classes that `serve.ingress` has made."""

    def __init__(self, app_or_func: Optional[Callable[..., Any]]) -> None:
        if app_or_func is not None:
            self._set_asgi_app(_load(app_or_func))

    def _set_asgi_app(self, app: ASGIApp) -> None:
        self._asgi_app = app
        self._serve_asgi_lifespan = Lifespan(app)

    @property
    def app(self) -> ASGIApp:
        return self._asgi_app

    @property
    def docs_path(self) -> Optional[str]:
        """Of FastAPI's page with the documentation of the application."""
        return getattr(self._asgi_app, "docs_url", None)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> Any:
        app: Callable[..., Any] = self._asgi_app
        return await app(scope, receive, send)  # None, if it is right


def _load(what: Any) -> ASGIApp:
    if isinstance(what, Frozen):
        return what.load()  # type: ignore[no-any-return]
    return what() if inspect.isfunction(what) else what  # type: ignore[no-any-return]


def is_ingress(func_or_class: Any) -> bool:
    """Whether `serve.ingress` has made this class."""
    return isinstance(func_or_class, type) and issubclass(func_or_class, ASGIAppReplicaWrapper)


# --- FastAPI's routes that are methods ---


async def _servable() -> Any:
    """What such a route gets as `self`."""
    from ... import replica

    return replica.get_replica_context().servable_object


def _is_fastapi(app: Any) -> bool:
    fastapi = sys.modules.get("fastapi")
    return fastapi is not None and isinstance(app, (fastapi.FastAPI, fastapi.APIRouter))


def _routes(router: Any, prefix: str = "") -> Iterator[Tuple[Any, Any, str]]:
    """(route, the router that it is in, prefix of that). FastAPI 0.137 and later keeps included routers as nodes."""
    from fastapi import routing

    included: Any = getattr(routing, "_IncludedRouter", ())
    for route in list(router.routes):
        if isinstance(route, (routing.APIRoute, routing.APIWebSocketRoute)):
            yield route, router, prefix
        elif included and isinstance(route, included):
            yield from _routes(route.original_router, prefix + route.include_context.prefix)


def _is_method_of(endpoint: Any, cls: Type[Any]) -> bool:
    name = getattr(endpoint, "__qualname__", "")
    return any(name.startswith(base.__qualname__ + ".") for base in cls.__mro__ if base is not object)


def _inject_self(endpoint: Any, cls: Type[Any]) -> None:
    """FastAPI then gives the object to the first parameter; the others are by keyword, since they follow a default."""
    from fastapi import Depends

    signature = inspect.signature(endpoint)
    parameters = list(signature.parameters.values())
    if not parameters:
        raise RayServeException("Methods in FastAPI class-based view must have ``self`` as their first argument.")
    parameters[0] = parameters[0].replace(default=Depends(_servable))
    parameters[1:] = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters[1:]]
    endpoint.__signature__ = signature.replace(parameters=parameters)
    setattr(endpoint, _OF_CLASS, cls)


def _bind_methods(app: Any, cls: Type[Any]) -> None:
    """Makes the routes that are methods of cls, or of its bases, work with its object, and removes those of other classes that
    have used the same application."""
    from fastapi import APIRouter
    from starlette.routing import compile_path

    mine = APIRouter()
    for route, parent, prefix in [r for r in _routes(app) if _is_method_of(r[0].endpoint, cls)]:
        parent.routes.remove(route)
        if prefix:
            route.path = prefix + route.path
            route.path_regex, route.path_format, route.param_convertors = compile_path(route.path)
        _inject_self(route.endpoint, cls)
        mine.routes.append(route)
    app.include_router(mine)  # it looks at the parameters again
    for route, parent, _ in list(_routes(app)):
        owner = getattr(route.endpoint, _OF_CLASS, None)
        if owner is not None and owner is not cls:
            parent.routes.remove(route)


# --- freezing ---


class Frozen:
    """An application as it was when it was decorated; each replica loads a copy of its own."""

    def __init__(self, app: Any) -> None:
        """TypeError names what cannot be pickled."""
        from .._driver.code import freeze

        self._pickle = freeze(app, "app")
        self.load()  # what can be pickled, but not loaded, is an error here, too

    def load(self) -> Any:
        import pickle

        return pickle.loads(self._pickle)


# --- the decorator ---


class ASGIIngressDeployment:
    """What is served where `serve.ingress(app)()` is given no class."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.args, self.kwargs = args, kwargs


def ingress(app: Optional[Callable[..., Any]] = None) -> Callable[..., Any]:
    """Makes an ASGI application the HTTP side of a deployment: a decorator for its class, below `serve.deployment`.

    app: a FastAPI application or router, any other ASGI application, or a function without parameters that returns one; it is
    called in each replica. None: the class has a method `__serve_build_asgi_app__`, which is called after `__init__`.

    Returned by itself, `serve.ingress(app)()` is a class for `serve.deployment`. TypeError: the application cannot be pickled.
    """

    def decorate(cls: Optional[Type[Any]] = None) -> Type[Any]:
        if cls is None:
            cls = ASGIIngressDeployment
        if not inspect.isclass(cls):
            raise ValueError("@serve.ingress must be used with a class.")
        if issubclass(cls, collections.abc.Callable):  # type: ignore[arg-type]
            raise ValueError("Classes passed to @serve.ingress may not have __call__ method.")
        if app is None and not hasattr(cls, BUILD):
            raise ValueError("serve.ingress() called without an app argument requires %s to define `%s`." % (cls.__name__, BUILD))
        if _is_fastapi(app):
            _bind_methods(app, cls)
        return _wrapped(cls, app if app is None or inspect.isfunction(app) else Frozen(app))

    return decorate


def _wrapped(cls: Type[Any], app: Any) -> Type[Any]:
    class ASGIIngressWrapper(cls, ASGIAppReplicaWrapper):  # type: ignore[misc]
        async def __init__(self, *args: Any, **kwargs: Any) -> None:  # type: ignore[misc]
            made = cls.__init__(self, *args, **kwargs)
            if inspect.isawaitable(made):
                await made
            ASGIAppReplicaWrapper.__init__(self, app)

        def __init_subclass__(subclass, **kwargs: Any) -> None:
            super().__init_subclass__(**kwargs)
            if not inspect.iscoroutinefunction(subclass.__init__):
                raise TypeError("%s.__init__ must be `async def`, and await super().__init__(...): that of a class decorated with "
                                "@serve.ingress is async" % subclass.__name__)  # fmt: skip

    for name in _COPIED:
        setattr(ASGIIngressWrapper, name, getattr(cls, name))
    ASGIIngressWrapper.__wrapped__ = cls
    return ASGIIngressWrapper


async def start(servable: ASGIAppReplicaWrapper, exceptions: Tuple[Type[Exception], ...], answer: Callable[..., Any]) -> None:
    """In a replica, after the constructor: builds the application, if the class does, and runs its startup.

    exceptions: what the application shall answer by `answer(request, exception)`, if it has handlers of exceptions."""
    build: Any = getattr(servable, BUILD, None)
    if build is not None:
        app = build()
        app = await app if inspect.isawaitable(app) else app
        if app is None:
            raise TypeError("`%s` must return an ASGI app." % BUILD)
        servable._set_asgi_app(app)
    add = getattr(servable.app, "add_exception_handler", None)
    if add is not None:
        for kind in exceptions:
            add(kind, answer)
    await servable._serve_asgi_lifespan.startup()


async def stop(servable: Any) -> None:
    """After the last request: runs the application's shutdown."""
    lifespan = getattr(servable, "_serve_asgi_lifespan", None)
    if lifespan is not None:
        await lifespan.shutdown()
