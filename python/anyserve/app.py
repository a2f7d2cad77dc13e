"""AnyServe: the object that collects the models of a file."""

from __future__ import annotations

import re
import sys
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, NamedTuple, Optional, TypeVar

from .batching import Batching
from .errors import DeclarationError, check_flag, check_int
from .signature import (
    Signature,
    Tensor,
    check_stream,
    is_async,
    is_generator,
    signature_of,
    stream_param,
)
from .spec import Deployment

if TYPE_CHECKING:
    from .testing.client import TestClient

__all__ = ["AnyServe", "deployment", "model"]

T = TypeVar("T")

DEFAULT_ONGOING_ASYNC = 100
MAX_ONGOING = 65535
VERBS = {"config", "generate", "generate_stream", "infer", "infer_stream", "load", "ready", "setting", "stats", "trace",
         "unload"}  # fmt: skip
_NAME = re.compile(r"[A-Za-z0-9._/-]{1,128}\Z")
_DEPLOYMENT = re.compile(r"[A-Za-z0-9._-]{1,128}\Z")
_VERSION = re.compile(r"[A-Za-z0-9._-]{1,64}\Z")


class Model(NamedTuple):
    """One declared model, checked."""

    name: str
    version: str
    handler: Any  # function, instance or class
    signature: Signature
    is_async: bool
    max_ongoing_requests: int
    deployment: Optional[str]
    threads: Optional[int]
    eager: bool
    idempotent: bool
    max_queued_requests: Optional[int]
    decoupled: bool  # it gives any number of responses to a request
    stream: Optional[str]  # the parameter that takes a stream of requests
    batching: Optional[Batching] = None


def check_name(name: Any) -> str:
    """Checks a model name, which must be usable as part of a URL path."""
    if not isinstance(name, str) or not _NAME.match(name):
        raise DeclarationError(
            "%r is no model name: 1-128 characters of A-Z a-z 0-9 . _ / -" % (name,)
        )
    segments = name.split("/")
    for segment in segments:
        if segment in ("", ".", "..", "versions"):
            raise DeclarationError("model name %r: the segment %r is not allowed" % (name, segment))
    if segments[-1] in VERBS:
        raise DeclarationError("model name %r: its last segment is a REST verb" % name)
    return name


def check_deployment(name: Any) -> str:
    """Checks a deployment name, which may also come from a file name: there is no rule about segments."""
    if not isinstance(name, str) or not _DEPLOYMENT.match(name):
        raise DeclarationError(
            "%r is no deployment name: 1-128 characters of A-Z a-z 0-9 . _ -" % (name,)
        )
    return name


def _split_name(name: Any, version: Optional[str]) -> "tuple[str, str]":
    if isinstance(name, str) and ":" in name:
        if version is not None:
            raise DeclarationError("%r names a version, and version=%r another" % (name, version))
        name, version = name.split(":", 1)
    version = "1" if version is None else version
    if not isinstance(version, str) or not _VERSION.match(version):
        raise DeclarationError("%r is no version: 1-64 characters of A-Z a-z 0-9 . _ -" % (version,))
    return check_name(name), version


def _home_of_caller() -> Optional[str]:
    """The name of the module whose code creates an AnyServe; None: this module."""
    frame: Optional[FrameType] = sys._getframe(2)
    # the __init__ of a subclass is in its own module: look for the caller of that
    while frame is not None and frame.f_code.co_name == "__init__" and "self" in frame.f_locals \
            and isinstance(frame.f_locals["self"], AnyServe):  # fmt: skip
        frame = frame.f_back
    name = frame.f_globals.get("__name__") if frame is not None else None
    return None if name == __name__ else name


class AnyServe:
    """An application: the models that one file serves.

    Decorate functions or classes with :meth:`model`, then ``anyserve run file.py``.
    """

    def __init__(self) -> None:
        self._home = _home_of_caller()
        self._models: Dict["tuple[str, str]", Model] = {}
        self._deployments: Dict[Optional[str], Deployment] = {}

    @property
    def deployments(self) -> Dict[Optional[str], Deployment]:
        """The options that were set with `deployment`, by name; None: those of the default deployment."""
        return dict(self._deployments)

    @property
    def models(self) -> List[Model]:
        """The declared models, in the order of their declaration."""
        return list(self._models.values())

    def model(
        self,
        name: str,
        *,
        version: Optional[str] = None,
        inputs: Optional[Mapping[str, Tensor]] = None,
        outputs: Optional[Mapping[str, Tensor]] = None,
        max_ongoing_requests: Optional[int] = None,
        deployment: Optional[str] = None,
        threads: Optional[int] = None,
        eager: bool = False,
        idempotent: bool = False,
        max_queued_requests: Optional[int] = None,
        batching: Optional[Batching] = None,
    ) -> Callable[[T], T]:
        """Declares the decorated function, async function or class as a model.

        A parameter annotated ``anyserve.Request``, or called ``request``, gets the whole request; other
        parameters get the inputs with their names, as read-only numpy arrays. The handler returns one
        array, a dict or tuple of arrays, or a Response. A handler with ``yield`` (``def`` or ``async
        def``) gives any number of responses, each in one of these forms, to clients of ModelStreamInfer
        and generate_stream; it runs only as far as its client reads, and is closed when the client
        leaves. An async handler whose only parameter is annotated ``AsyncIterator[Request]`` gets all
        requests of one stream. A class is constructed once in each worker, and its ``__call__`` is the
        handler.

        name: also "name:version". version: default "1".
        inputs, outputs: signature, name to Tensor; default: inferred from annotations
            (``Annotated[np.ndarray, Tensor(...)]``), else any tensors.
        max_ongoing_requests: how many requests execute at once in one worker; default 1 for a sync
            handler (or ``threads``), 100 for an async one. With batching it counts calls, and the
            default is 1.
        deployment: the deployment that the model belongs to. The models of a deployment share workers
            and a queue. Default: one deployment for the file.
        threads: runs this sync handler in that many threads instead of the main thread.
        eager: runs an async handler up to its first suspension without a task. This is faster, but
            until then there is no current task (no asyncio.timeout, no TaskGroup), and context
            variables are shared with the event loop.
        idempotent: a request may be repeated on another worker if its worker dies while it executes.
        max_queued_requests: most requests that wait in the queue of the deployment; further ones are
            refused. -1: no limit; default: the server's --max-queued-requests.
        batching: requests share calls (see Batching). The inputs then have the items of all requests,
            or are lists of arrays; a parameter called ``requests`` gets a list with each Request. The
            handler returns arrays with a row for each item, or a list with the answer of each request,
            in which an exception (such as anyserve.Error) fails only its own request.
        """
        model_name, model_version = _split_name(name, version)

        def declare(handler: T) -> T:
            try:
                self._add(
                    model_name, model_version, handler, inputs, outputs, max_ongoing_requests,
                    deployment, threads, eager, idempotent, max_queued_requests, batching,
                )  # fmt: skip
            except DeclarationError as e:
                if str(e).startswith("model "):
                    raise
                raise DeclarationError("model %r: %s" % (model_name, e)) from None
            return handler

        return declare

    def deployment(self, name: Optional[str] = None, **options: Any) -> Deployment:
        """Sets options of a deployment of this file. They have the same names as in a deployment file.

        name: as in ``model(..., deployment=name)``; without it, the default deployment, of models that name none.
        An option that a deployment file sets overrides the one that is set here. docs/guide/deployment-file.md
        lists the options.
        """
        if name is not None:
            check_deployment(name)
        if name in self._deployments:
            what = "the default deployment" if name is None else "deployment %r" % name
            raise DeclarationError("the options of %s are set twice" % what)
        # checked here, so that the traceback shows the mistake; the loader names the default deployment
        self._deployments[name] = Deployment("default" if name is None else name, **options)
        return self._deployments[name]

    def home(self) -> Optional[ModuleType]:
        """The module that created this object; for anyserve.model, the module of the first model."""
        name = self._home
        if name is None and self._models:
            name = getattr(next(iter(self._models.values())).handler, "__module__", None)
        return sys.modules.get(name) if name else None

    def run(self, **options: Any) -> None:
        """Serves the app, from its script: ``if __name__ == "__main__": app.run(port=8000)``.

        This does what ``anyserve run`` of that file does. Keywords are its long options (``max_queued_requests=10``;
        True and False for switches; None: not set). The process becomes the server, so nothing after this call
        runs; Ctrl-C ends it. In a replica, which imports the script, the call does nothing.
        """
        from .script import run

        run(self, options)

    def test_client(self, *, user_config: Any = None, debug_errors: bool = False) -> "TestClient":
        """A client for tests: it calls the models within this process, without a server (docs/guide/testing.md).

        user_config: for `reconfigure`; default: that of the code.
        debug_errors: error texts have tracebacks, as with ``anyserve run --debug-errors``.
        """
        from .testing.client import TestClient

        return TestClient(self, user_config, debug_errors)

    def _add(
        self, name: str, version: str, handler: Any, inputs: Any, outputs: Any, ongoing: Any,
        deployment: Any, threads: Any, eager: Any, idempotent: Any, queued: Any, batching: Any,
    ) -> None:  # fmt: skip
        if (name, version) in self._models:
            raise DeclarationError("model %r version %r is declared twice" % (name, version))
        if not callable(handler):
            raise DeclarationError("%r cannot be called" % (handler,))
        asynchronous = is_async(handler)
        stream = stream_param(handler)
        if stream is not None:
            check_stream(handler, stream)
        decoupled = is_generator(handler) or stream is not None
        if threads is not None:
            check_int(threads, "threads", 1, 1024)
            if asynchronous:
                raise DeclarationError("threads is for sync handlers; this one is async")
        if check_flag(eager, "eager") and not asynchronous:
            raise DeclarationError("eager is for async handlers; this one is not")
        if eager and decoupled:
            raise DeclarationError("eager is for handlers that give one response; this one gives a stream")
        if batching is not None and not isinstance(batching, Batching):
            raise DeclarationError("batching is a Batching(...), not %r" % (batching,))
        if batching is not None and (decoupled or stream is not None):
            raise DeclarationError("batching is for handlers that take and give one message")
        if ongoing is None:
            many = asynchronous and batching is None
            ongoing = DEFAULT_ONGOING_ASYNC if many else threads or 1
        if queued is not None and queued != -1:
            check_int(queued, "max_queued_requests", 1, 2**31 - 1)
        self._models[name, version] = Model(
            name,
            version,
            handler,
            signature_of(handler, inputs, outputs, batching is not None),
            asynchronous,
            check_int(ongoing, "max_ongoing_requests", 1, MAX_ONGOING),
            None if deployment is None else check_deployment(deployment),
            threads,
            eager,
            check_flag(idempotent, "idempotent"),
            queued,
            decoupled,
            stream,
            batching,
        )

    def __repr__(self) -> str:
        return "<AnyServe with %d model%s>" % (len(self._models), "" if len(self._models) == 1 else "s")


default_app = AnyServe()
model = default_app.model
deployment = default_app.deployment

