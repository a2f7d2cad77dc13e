"""A declared model: what `AnyServe.model` was given, checked."""

from __future__ import annotations

import re
from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Tuple, TypeVar

from .batching import Batching
from .errors import DeclarationError, check_flag, check_int
from .signature import Signature, check_stream, is_async, is_generator, signature_of, stream_param

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
    opaque: bool = False  # called by handles only: no tensors, any number of methods
    http: bool = False  # with opaque: it also answers requests of HTTP


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


def split_name(name: Any, version: Optional[str]) -> Tuple[str, str]:
    if isinstance(name, str) and ":" in name:
        if version is not None:
            raise DeclarationError("%r names a version, and version=%r another" % (name, version))
        name, version = name.split(":", 1)
    version = "1" if version is None else version
    if not isinstance(version, str) or not _VERSION.match(version):
        raise DeclarationError("%r is no version: 1-64 characters of A-Z a-z 0-9 . _ -" % (version,))
    return check_name(name), version


def model_of(name: str, version: str, handler: Any, *, inputs: Any, outputs: Any, max_ongoing_requests: Any,
             deployment: Any, threads: Any, eager: Any, idempotent: Any, max_queued_requests: Any,
             batching: Any) -> Model:  # fmt: skip
    """The model that these options of `AnyServe.model` declare. DeclarationError."""
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
    if max_ongoing_requests is None:
        many = asynchronous and batching is None
        max_ongoing_requests = DEFAULT_ONGOING_ASYNC if many else threads or 1
    if max_queued_requests is not None and max_queued_requests != -1:
        check_int(max_queued_requests, "max_queued_requests", 1, 2**31 - 1)
    return Model(
        name,
        version,
        handler,
        signature_of(handler, inputs, outputs, batching is not None),
        asynchronous,
        check_int(max_ongoing_requests, "max_ongoing_requests", 1, MAX_ONGOING),
        None if deployment is None else check_deployment(deployment),
        threads,
        eager,
        check_flag(idempotent, "idempotent"),
        max_queued_requests,
        decoupled,
        stream,
        batching,
    )


def _natural(version: str) -> List[Tuple[int, int]]:
    """A sort key with the server's order of versions: runs of digits are numbers."""
    tokens = re.findall(r"[0-9]+|[^0-9]", version)
    return [(48, int(t)) if t[0] in "0123456789" else (ord(t), 0) for t in tokens]


def default_version(all: Sequence[T], version: Callable[[T], str]) -> T:
    """What the server calls for a request without a version: that with the highest integer, else the last version."""
    integers = [m for m in all if re.fullmatch("[0-9]+", version(m))]
    return max(integers or all, key=lambda m: _natural(version(m)))
