"""Types of the C extension."""

from contextvars import ContextVar
from typing import Any, Callable, Coroutine, Dict, Generator, List, Literal, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from .arrays import Message

class Request:
    """One inference request, as a handler's parameter called `request` sees it. A unit test makes one itself."""

    def __new__(cls, *, inputs: Mapping[str, Any] = ..., parameters: Mapping[str, Union[bool, int, float, str]] = ...,
                metadata: Mapping[str, Union[str, bytes]] = ..., id: str = "", model_name: str = "",
                model_version: str = "1", deadline: Optional[float] = None, items: int = 1,
                cancelled: bool = False,
                input_parameters: Mapping[str, Mapping[str, Union[bool, int, float, str]]] = ...,
                ) -> Request: ...  # fmt: skip
    @property
    def inputs(self) -> Mapping[str, np.ndarray]:
        """Mapping of tensor name to numpy array (read-only view)."""
    @property
    def parameters(self) -> Mapping[str, Union[bool, int, float, str]]:
        """Mapping of parameter name to bool, int, float or str."""
    @property
    def input_parameters(self) -> Mapping[str, Mapping[str, Union[bool, int, float, str]]]:
        """Mapping of input name to the parameters of that input; inputs without any are not in it."""
    @property
    def metadata(self) -> Mapping[str, Union[str, bytes]]:
        """Headers of the call; values of '-bin' keys are bytes."""
    @property
    def id(self) -> str:
        """The client's request id, '' if it gave none."""
    @property
    def model_name(self) -> str:
        """Name of the model that was called."""
    @property
    def model_version(self) -> str:
        """Version of the model that was called."""
    @property
    def deadline(self) -> Optional[float]:
        """When the client stops waiting (time.monotonic()), or None."""
    @property
    def items(self) -> int:
        """Rows of the inputs' first dimension, for a model with batching; otherwise 1."""
    @property
    def cancelled(self) -> bool:
        """True when nobody waits for the answer any more."""

class OutputError(Exception):
    """A handler returned something that is no answer."""

class Call: ...

class Body:
    """A body of a call, or of an answer, that has come. Views of the link's bytes, which are read-only."""

    data: memoryview
    buffers: List[memoryview]
    parts: List[memoryview]
    whole: memoryview
    method: str
    codec: int
    flags: int

    def load(self) -> Any: ...

class Incoming:
    """A call that this replica serves."""

    method: str
    id: str
    metadata: Optional[Dict[str, str]]
    stream: bool
    inputs: bool
    beyond: bool
    deadline: Optional[float]
    cancelled: bool
    ended: bool
    body: Optional[Body]
    room_waiter: Any
    input_waiter: Any
    on_cancel: Any
    state: Any

    def load(self) -> Any: ...
    def answer(self, codec: int, flags: int, data: Any, buffers: Any, /) -> None: ...
    def part(self, codec: int, flags: int, data: Any, buffers: Any, /) -> bool: ...
    def finish(self) -> None: ...
    def fail(self, status: int, text: str, /) -> None: ...
    def room(self) -> bool: ...
    def next_input(self) -> Any:
        """Bytes; None: there is no further one; Ellipsis: none now."""

class Http:
    """A request of HTTP, as ASGI has it."""

    scope: Dict[str, Any]
    id: str
    model_id: str
    session_id: str
    beyond: bool
    deadline: Optional[float]
    status: int
    started: bool
    complete: bool
    cancelled: bool
    disconnected: bool
    ended: bool
    on_cancel: Any

    def receive(self) -> Coroutine[Any, Any, Dict[str, Any]]: ...
    def send(self, message: Any, /) -> Coroutine[Any, Any, None]: ...
    def respond(self, status: int, headers: Sequence[Tuple[bytes, bytes]], body: bytes, /) -> Coroutine[Any, Any, None]: ...
    def drop(self) -> None: ...
    def fail(self, status: int, text: str, /) -> None: ...

class Out:
    """A call that this process has opened."""

    request_id: str
    cancelled: bool
    stream: bool
    target: Tuple[str, str]
    replica: Optional[str]

    def __await__(self) -> Generator[Any, None, Any]: ...
    def done(self) -> bool: ...
    def result(self, timeout: Optional[float] = None, /) -> Any: ...
    def exception(self) -> Optional[BaseException]: ...
    def next(self, timeout: Optional[float], /) -> Any: ...
    async def anext(self) -> Any: ...
    async def reserved(self) -> str: ...
    def use(self, method: Optional[str], codec: int, data: Any, buffers: Optional[Sequence[Any]], parts: Optional[List[Any]],
            deadline: Optional[float], id: str, model_id: str, session_id: str, priority: int, tenant: str, window: int, /) -> None: ...  # fmt: skip
    def cancel(self) -> None: ...
    def add_done_callback(self, fn: Callable[[Any], object], /) -> None: ...

class Stream:
    room_waiter: Any
    input_waiter: Any

    def send(self, result: Any, /) -> None: ...
    def room(self) -> bool: ...
    def next(self) -> Union[Request, None, Literal[False]]: ...
    def more(self) -> bool: ...

class Local:
    def start(self, model: int, message: Message, more: bool, room: int, /) -> Optional[str]: ...
    def input(self, message: Message, /) -> Optional[str]: ...
    def end(self) -> Optional[str]: ...
    def room(self, parts: int, /) -> None: ...
    def cancel(self) -> None: ...

class LoopBase:
    """Has call_soon and get_debug in the place of asyncio's."""

class Link:
    error: str
    ongoing: int
    stopping: bool

    def __init__(
        self,
        path: str,
        token: str,
        replica: str,
        deployment: str,
        peer: str,
        models: Sequence[Any],
        slots: int,
        max_prefetch: int,
        max_queued: int,
        max_message: int,
        stream_inputs: int,
        stream_input_bytes: int,
        on_error: Callable[[str, str, BaseException], Tuple[int, str]],
        /,
    ) -> None: ...
    def connect(self, timeout: float, /) -> Optional[Tuple[str, str]]: ...
    def connect_begin(self) -> Optional[Tuple[str, str]]: ...
    def connect_step(self) -> Union[None, Literal[False], Tuple[str, str]]: ...
    def connect_abort(self) -> None: ...
    def run(self) -> Optional[str]: ...
    def stop(self) -> None: ...
    def stop_on(self, signum: int, /) -> None: ...
    def use_loop(self, loop: Any, spawn: Callable[[Any], Any], eager: bool, schedule: Callable[[], Any],
                 drive: Callable[[Stream, Any], Any], on_news: Callable[[Optional[str]], Any],
                 beside: Optional[Callable[[Call], Any]], /) -> int: ...  # fmt: skip
    def turn(self) -> None: ...
    def wait_with(self, fd: int, /) -> None: ...
    def wait(self, timeout: Optional[float], /) -> List[Tuple[int, int]]: ...
    def on_ask(self, answer: Callable[[int, str, object], Any], /) -> None: ...
    def on_policy(self, take: Callable[[int, bytes], Any]) -> None: ...
    def send_policy(self, origin: int, records: bytes) -> bool: ...
    def spawn(self, coro: Any, /) -> Any: ...
    def reply(self, ask: object, status: int, text: str, /) -> None: ...
    def set_options(self, health_period: int, health_timeout: int, execution_timeout: int, request_timeout: int,
                    health_failures: int, dump_signal: int, slots: int, idempotent: int, max_queued: int,
                    queued_per_caller: bool, backpressure_status: int, backpressure_retry: int, priority_share: int,
                    fairness: int, codel_target: int, codel_interval: int, slow_start: int, adaptive: bool, /) -> None: ...  # fmt: skip
    def trace(self, request_id: Optional[ContextVar[str]], /) -> None: ...
    def local(self, part: Optional[Callable[[Dict[str, np.ndarray], Dict[str, Any], Dict[str, Dict[str, Any]]], Any]],
              took: Optional[Callable[[], Any]], done: Callable[[int, str], Any], /) -> Local: ...  # fmt: skip
    def set_services(self, methods: List[Tuple[str, bool, bool]], descriptors: bytes, /) -> None: ...
    def set_router(self, policy: Optional[str], session_header: Optional[str], max_wait: int, virtual_nodes: int,
                   fallbacks: int, bound: int, session_ttl: int, max_sessions: int, prefer_local: bool,
                   ask_first: int, ask_factor: int, ask_max: int, /) -> None: ...  # fmt: skip
    def set_traffic(self, canary: int, mirror: int, fallback: Optional[str], /) -> None: ...
    def target(self, application: str, deployment: str, /) -> int: ...
    def open(self, method: Optional[str], codec: int, data: Any, buffers: Optional[Sequence[Any]], parts: Optional[List[Any]],
             deadline: Optional[float], id: str, model_id: str, session_id: str, priority: int, tenant: str, target: int,
             parent: Any, window: int, every: bool, reserve: bool, /) -> Out: ...  # fmt: skip
    def report(self, kind: int, text: str, /) -> None: ...
    @classmethod
    def driver(cls, path: Optional[str], token: Optional[str], runtime_dir: Optional[str], port: int, peer: str, /) -> Link: ...
    def run_calls(self) -> Optional[str]: ...
    def stop_calls(self) -> None: ...
    def drain(self) -> None: ...
    def forked(self) -> None: ...
    def registrations(self) -> List[bytes]: ...
    def close(self, why: Optional[str] = None, /) -> None: ...

def set_response_type(type: type, /) -> None: ...
def set_body_hooks(load: Callable[[Any], Any], exception: Callable[[Any], BaseException],
                   status: Callable[[Any, int, int, str], BaseException], /) -> None: ...  # fmt: skip
