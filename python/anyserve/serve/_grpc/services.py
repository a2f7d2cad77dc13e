"""Which gRPC services a program serves: what its `grpc_servicer_functions` add to a server.

Such a function, `add_GreeterServicer_to_server`, is made by protoc. It is called with something that is like a server and
keeps what it is given: the paths of the methods, how their messages are read, and their descriptors, for reflection.
"""

from __future__ import annotations

import functools
import importlib
import os
from typing import Any, Callable, Dict, Iterable, NamedTuple, Tuple

from ...runtime.log import log_event
from ...stop import EX_DECLARATION, EX_NOTFOUND, stop

VARIABLE = "ANYSERVE_GRPC_SERVICER_FUNCTIONS"  # import paths, separated by commas
MAX_FRAME = 48 << 10  # bytes of all methods and descriptors: AS_FRAME_SERVICES_MAX
MAX_METHODS = 1024
MAX_PATH = 512


class Method(NamedTuple):
    path: str  # "/package.Service/Method"
    takes_inputs: bool  # the client sends any number of messages
    gives_parts: bool  # the server does
    parse: Callable[[bytes], Any]  # a message of the client


class _AnyServicer:
    """Has every method."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *args, **kwargs: None


class _Collector:
    """What stands for a server of grpcio."""

    def __init__(self) -> None:
        self.methods: Dict[str, Method] = {}

    def _add(self, path: str, handler: Any) -> None:
        parse = handler.request_deserializer or bytes
        self.methods[path] = Method(path, handler.request_streaming, handler.response_streaming, parse)

    def add_generic_rpc_handlers(self, generic_rpc_handlers: Iterable[Any]) -> None:
        for generic in generic_rpc_handlers:
            for path, handler in getattr(generic, "_method_handlers", {}).items():
                self._add(path, handler)

    def add_registered_method_handlers(self, service_name: str, method_handlers: Dict[str, Any]) -> None:
        for name, handler in method_handlers.items():
            self._add("/%s/%s" % (service_name, name), handler)


def _import(path: str) -> Callable[[Any, Any], Any]:
    """ModuleNotFoundError, ValueError."""
    module, _, name = path.replace(":", ".").rpartition(".")
    if not module:
        raise ValueError("%s is no import path of a function, like `pkg.module.add_GreeterServicer_to_server`" % path)
    try:
        found = getattr(importlib.import_module(module), name, None)
    except ModuleNotFoundError as e:
        raise ModuleNotFoundError(
            "%s can't be imported! Please make sure there are no typo in those functions. Or you might want to rebuild "
            "service definitions if .proto file is changed. (%s)" % (path, e)
        ) from e
    if not callable(found):
        raise ValueError("%s is not a callable function! Please make sure the function is imported correctly." % path)
    return found  # type: ignore[no-any-return]


def collect(paths: Iterable[str]) -> Dict[str, Method]:
    """The methods that these functions add, by path, in order. ModuleNotFoundError, ValueError; what the functions raise."""
    server = _Collector()
    for path in paths:
        _import(path)(_AnyServicer(), server)
    for path in server.methods:
        if not path.isascii() or not path.isprintable() or " " in path or path.count("/") != 2 or len(path) > MAX_PATH:
            raise ValueError("%r is no path of a gRPC method" % path)
    if len(server.methods) > MAX_METHODS:
        raise ValueError("grpc_servicer_functions have %d methods; at most %d" % (len(server.methods), MAX_METHODS))
    return dict(sorted(server.methods.items()))


# --- descriptors ---


def _varint(n: int) -> bytes:
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def descriptors_of(methods: Iterable[str]) -> bytes:
    """A FileDescriptorSet of the files that declare these services, and all that they import. A service that protobuf does
    not know is left out."""
    from google.protobuf import descriptor_pool  # type: ignore[import-untyped]

    files: Dict[str, bytes] = {}

    def add(file: Any) -> None:
        if file.name not in files:
            files[file.name] = file.serialized_pb
            for dependency in file.dependencies:
                add(dependency)

    for service in dict.fromkeys(path.split("/")[1] for path in methods):
        try:
            add(descriptor_pool.Default().FindServiceByName(service).file)
        except KeyError:
            log_event("warn", "service_without_descriptor", service=service, effect="reflection does not describe it")
    return b"".join(b"\x0a" + _varint(len(f)) + f for f in files.values())


# --- of this process ---


@functools.cache
def _load(text: str) -> Tuple[Dict[str, Method], bytes]:
    methods = collect(text.split(","))
    descriptors = descriptors_of(methods) if methods else b""
    room = MAX_FRAME - 8 - sum(4 + len(path) for path in methods)
    if room < 0:
        raise ValueError("the paths of the methods of grpc_servicer_functions have %d bytes too many" % -room)
    if len(descriptors) > room:
        log_event("warn", "descriptors_too_large", bytes=len(descriptors), limit=room, effect="reflection does not describe them")
        descriptors = b""
    return methods, descriptors


def load() -> Tuple[Dict[str, Method], bytes]:
    """The methods that this process is to serve, and their descriptors. Raises Stop."""
    text = os.environ.get(VARIABLE)
    if not text:
        return {}, b""
    try:
        return _load(text)
    except ModuleNotFoundError as e:
        stop(EX_NOTFOUND, "grpc_servicer_functions: %s" % e)
    except Exception as e:
        stop(EX_DECLARATION, "grpc_servicer_functions: %s: %s" % (type(e).__name__, e))


def register(link: Any) -> None:
    """Tells a link which services its deployment serves. Raises Stop."""
    methods, descriptors = load()
    if methods:
        link.set_services([(m.path, m.takes_inputs, m.gives_parts) for m in methods.values()], descriptors)
