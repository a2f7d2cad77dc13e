"""AnyServe: the object that collects the models of a file."""

from __future__ import annotations

import sys
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, TypeVar

from .batching import Batching
from .declared_model import Model, check_deployment, model_of, split_name
from .errors import DeclarationError
from .signature import Tensor
from .spec import Deployment

if TYPE_CHECKING:
    from .testing.client import TestClient

__all__ = ["AnyServe", "deployment", "model"]

T = TypeVar("T")


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
        key = split_name(name, version)

        def declare(handler: T) -> T:
            try:
                if key in self._models:
                    raise DeclarationError("model %r version %r is declared twice" % key)
                self._models[key] = model_of(
                    *key, handler, inputs=inputs, outputs=outputs, max_ongoing_requests=max_ongoing_requests,
                    deployment=deployment, threads=threads, eager=eager, idempotent=idempotent,
                    max_queued_requests=max_queued_requests, batching=batching,
                )  # fmt: skip
            except DeclarationError as e:
                if str(e).startswith("model "):
                    raise
                raise DeclarationError("model %r: %s" % (key[0], e)) from None
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

    def __repr__(self) -> str:
        return "<AnyServe with %d model%s>" % (len(self._models), "" if len(self._models) == 1 else "s")


default_app = AnyServe()
model = default_app.model
deployment = default_app.deployment

