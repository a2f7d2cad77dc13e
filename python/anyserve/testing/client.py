"""app.test_client(): calls the models of an application within this process, as clients of a server would.

    def test_add():
        with app.test_client() as client:
            assert client.infer("add", {"a": [1, 2], "b": [10, 20]})["sum"].tolist() == [11, 22]

No server runs. Requests and answers are checked by the code that the server and its workers use (local.py). An error
that a client would get is raised as anyserve.Error, with the status as its `code` and the same text.
"""

from __future__ import annotations

import collections.abc
import functools
import queue
import threading
from typing import (
    TYPE_CHECKING, Any, AsyncIterator, Callable, Dict, Iterable, Iterator, List, Mapping, NoReturn, Optional, Sequence,
    Tuple, Type, Union,
)  # fmt: skip

from ..arrays import (
    Message, as_array, as_elements, as_parameters, check_parameters, datatype_of, flatten, tensor_bytes,
)  # fmt: skip
from ..code.deployments import deployments_of
from ..declared_model import Model, default_version
from ..errors import DeclarationError, Error
from ..runtime import lifecycle
from ..signature import Tensor
from .local import Answer, Call, Local, error_of, plain_errors

if TYPE_CHECKING:
    import asyncio

    import numpy as np

    from ..app import AnyServe

__all__ = ["Result", "TestClient"]

Inputs = Mapping[str, Any]


class Result(Mapping[str, Any]):
    """One answer: a mapping of output name to numpy array, with parameters, id, model name and version."""

    def __init__(self, outputs: "Dict[str, np.ndarray]", parameters: Dict[str, Any], model: Model, id: str,
                 output_parameters: Dict[str, Dict[str, Any]]) -> None:  # fmt: skip
        self.outputs, self.parameters, self.id = outputs, parameters, id
        self.output_parameters = output_parameters
        self.model_name, self.model_version = model.name, model.version

    def __getitem__(self, name: str) -> "np.ndarray":
        return self.outputs[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.outputs)

    def __len__(self) -> int:
        return len(self.outputs)

    def __repr__(self) -> str:
        return "<anyserve result of %s:%s: %r>" % (self.model_name, self.model_version, self.outputs)


def _refuse(code: str, text: str, *args: Any) -> NoReturn:
    raise Error(code, text % args)


# --- a request ---


def _tensor(name: Any, value: Any, declared: Optional[Tensor]) -> Tuple[str, str, Tuple[int, ...], bytes]:
    """Arrays keep their datatype; lists get the declared one, like data in JSON."""
    if not isinstance(name, str) or not name:
        raise TypeError("the name of an input is a text, not %r" % (name,))
    where = "input %r" % name
    if declared is not None and not hasattr(value, "dtype") and declared.datatype != "BYTES":
        shape, level = [], value
        while isinstance(level, (list, tuple)):
            shape.append(len(level))
            level = level[0] if len(level) else None
        try:
            data = as_elements(where, declared.datatype, flatten(where, _lists(value)))
        except DeclarationError as e:
            _refuse("INVALID_ARGUMENT", "%s", e)
        return name, declared.datatype, tuple(shape), data
    array = as_array(where, value)
    return name, datatype_of(array), array.shape, tensor_bytes(array)


def _lists(value: Any) -> Any:
    return [_lists(v) for v in value] if isinstance(value, (list, tuple)) else value


def _message(model: Model, inputs: Optional[Inputs], parameters: Any, id: Any, metadata: Any,
             input_parameters: Any) -> Message:  # fmt: skip
    if inputs is not None and not isinstance(inputs, collections.abc.Mapping):
        raise TypeError("inputs is a mapping of name to array, not %s" % type(inputs).__name__)
    if not isinstance(id, str):
        raise TypeError("id is a str, not %s" % type(id).__name__)
    declared = model.signature.inputs or {}
    batched = model.batching is not None

    def spec(name: str) -> Optional[Tensor]:
        t = declared.get(name)
        return None if t is None else Tensor(t.datatype, t.served_shape(batched))

    of = dict(input_parameters or {})
    for name in of:
        if name not in (inputs or {}):
            raise TypeError("input_parameters name the input %r, which is not given" % (name,))
    tensors = [(*_tensor(n, v, spec(n)), dict(of.get(n) or {})) for n, v in (inputs or {}).items()]
    try:
        checked = as_parameters(dict(parameters or {}))
        for t in tensors:
            check_parameters(t[-1])
    except DeclarationError as e:
        _refuse("INVALID_ARGUMENT", "%s", e)
    return Message(tensors, checked, id, _metadata(metadata))


def _metadata(metadata: Optional[Mapping[str, Union[str, bytes]]]) -> Dict[str, Union[str, bytes]]:
    """Checks metadata as gRPC does: names become lower case, and values of names in -bin are bytes."""
    found = {}
    for name, value in (metadata or {}).items():
        kind = bytes if name.lower().endswith("-bin") else str
        if not isinstance(value, kind):
            raise TypeError("metadata %r is %s, not %s" % (name, kind.__name__, type(value).__name__))
        found[name.lower()] = value
    return found


# --- answers ---


class _Answers:
    """Makes results of the answers to one request, with the outputs that were requested."""

    call: Call
    _over: Type[Exception] = StopIteration  # what ends an iterator of answers

    def __init__(self, model: Model, id: str, outputs: Optional[Sequence[str]]) -> None:
        self._model, self._id, self._wanted = model, id, outputs
        self._n_read = 0
        self._ended = False

    def _only(self, first: Answer, end: Answer) -> Result:
        """The result, if there is one answer."""
        if end.status:
            raise error_of(end)
        return self.result(first)

    def _ask(self) -> None:
        """Makes room for the next answer."""
        if self._ended:
            raise self._over
        if self._n_read:
            self.call.room()

    def _next(self, answer: Answer) -> Result:
        self._n_read += 1
        if answer.outputs is not None:
            return self.result(answer)
        self._ended = True
        raise error_of(answer) if answer.status else self._over

    def _cancel(self) -> bool:
        """False: the answers have ended, so none must be waited for."""
        if self._ended:
            return False
        self._ended = True
        self.call.cancel()
        return True

    def result(self, answer: Answer) -> Result:
        got = answer.outputs
        assert got is not None
        if self._wanted:
            for name in self._wanted:
                if name not in got:
                    _refuse("INVALID_ARGUMENT", "model '%s' has no output '%s'", self._model.name, name)
            got = {name: got[name] for name in self._wanted}
        of = {name: params for name, params in answer.output_parameters.items() if name in got}
        return Result(got, answer.parameters, self._model, self._id, of)


class Stream(_Answers, Iterator[Result]):
    """The answers to one request. The handler runs only as far as they are read; close() ends it."""

    def __init__(self, answers: Tuple[Any, ...], begin: Callable[[Callable[[Answer], Any]], Call]) -> None:
        super().__init__(*answers)
        self._received: "queue.SimpleQueue[Answer]" = queue.SimpleQueue()
        self.call = begin(self._received.put)

    def only(self) -> Result:
        """The answer to a request that has one."""
        first = self._received.get()
        return self._only(first, first if first.outputs is None else self._received.get())

    def __next__(self) -> Result:
        self._ask()
        return self._next(self._received.get())

    def close(self) -> None:
        """Ends the stream; returns when the handler has ended."""
        more = self._cancel()
        while more:
            more = self._received.get().outputs is not None

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *exc: Any) -> None:
        self.close()


class AsyncStream(_Answers, AsyncIterator[Result]):
    """A Stream for code on an event loop."""

    _over = StopAsyncIteration

    def __init__(self, answers: Tuple[Any, ...], begin: Callable[[Callable[[Answer], Any]], Call]) -> None:
        import asyncio

        super().__init__(*answers)
        self._loop = asyncio.get_running_loop()
        self._received: "asyncio.Queue[Answer]" = asyncio.Queue()
        self.call = begin(self._put)

    def _put(self, answer: Answer) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._received.put_nowait, answer)

    async def only(self) -> Result:
        first = await self._received.get()
        return self._only(first, first if first.outputs is None else await self._received.get())

    async def __anext__(self) -> Result:
        self._ask()
        return self._next(await self._received.get())

    async def aclose(self) -> None:
        more = self._cancel()
        while more:
            more = (await self._received.get()).outputs is not None

    async def __aenter__(self) -> "AsyncStream":
        return self

    async def __aexit__(self, *exc: Any) -> None:
        await self.aclose()


def _feed(call: Call, messages: Iterator[Message]) -> None:
    """Runs in a thread: sends messages as the handler has room for them."""
    for message in messages:
        call.inputs.acquire()
        if call.over:
            return
        call.send(message)
    call.end()


async def _feed_async(call: Call, messages: AsyncIterator[Message]) -> None:
    import asyncio

    async for message in messages:
        while not call.inputs.acquire(blocking=False):
            await asyncio.to_thread(call.inputs.acquire)
            call.inputs.release()
        if call.over:
            return
        call.send(message)
    call.end()


# --- the client ---


class TestClient:
    """The result of app.test_client(). A context manager; without `with`, it starts at the first call."""

    __test__ = False  # tells pytest that this is no test class

    def __init__(self, app: AnyServe, user_config: Any = None, debug_errors: bool = False) -> None:
        self._app, self._user_config, self._debug = app, user_config, debug_errors
        self._locals: List[Local] = []
        self._found: Dict[Tuple[str, str], Tuple[Local, int]] = {}
        self._lock = threading.Lock()
        self._state = ""

    # --- start and close ---

    def start(self) -> None:
        """Constructs the models' classes, and calls reconfigure and check_health, like a worker at its start."""
        if self._state == "started":
            return
        if self._state == "closed":
            raise RuntimeError("the client is closed")
        with self._lock:
            if self._state == "closed":
                raise RuntimeError("the client is closed")
            if self._state:
                return
            if not self._app.models:
                raise DeclarationError("the app declares no models")
            home = self._app.home()
            with plain_errors():
                deployments = deployments_of(self._app.models, self._app.deployments, home.__name__ if home else "app", home)
            try:
                for d in deployments:
                    self._locals.append(Local(d, self._user_config, self._debug))
            except BaseException:
                self._close_all()
                raise
            for local in self._locals:
                for i, m in enumerate(local.models):
                    self._found[m.name, m.version] = (local, i)
            self._state = "started"

    def _close_all(self) -> None:
        for local in self._locals:
            local.close()
        self._locals = []
        self._found = {}

    def close(self) -> None:
        """Ends running requests, and drops the models' objects."""
        for local in self._locals:
            if local.is_within():
                raise RuntimeError("a handler cannot close the client that runs it")
        with self._lock:
            self._state = "closed"
            self._close_all()

    def __enter__(self) -> "TestClient":
        self.start()
        return self

    def __exit__(self, *exc: Any) -> None:
        self.close()

    async def __aenter__(self) -> "TestClient":
        return self.__enter__()

    async def __aexit__(self, *exc: Any) -> None:
        self.close()

    # --- calls ---

    def _find(self, name: str, version: Optional[str]) -> Tuple[Local, int]:
        self.start()
        if not isinstance(name, str) or not name:
            _refuse("INVALID_ARGUMENT", "the model name is empty")
        found = [key for key in self._found if key[0] == name]
        if not found:
            _refuse("NOT_FOUND", "unknown model '%s'", name)
        if version is not None:
            if (name, version) not in self._found:
                _refuse("NOT_FOUND", "model '%s' has no version '%s'", name, version)
            return self._found[name, version]
        return self._found[default_version(found, lambda key: key[1])]

    def _unary(self, model: str, version: Optional[str]) -> Tuple[Local, int, Model]:
        local, number = self._find(model, version)
        m = local.models[number]
        if m.decoupled:
            _refuse("UNIMPLEMENTED", "model '%s' answers with a stream of responses: it is called by ModelStreamInfer"
                    " or generate_stream", m.name)  # fmt: skip
        return local, number, m

    @staticmethod
    def _may_wait(local: Local, instead: str) -> None:
        if local.is_here():
            raise RuntimeError("this would wait for the event loop that it runs on: use " + instead)

    def infer(self, model: str, inputs: Optional[Inputs] = None, *, version: Optional[str] = None,
              outputs: Optional[Sequence[str]] = None, parameters: Optional[Mapping[str, Any]] = None, id: str = "",
              metadata: Optional[Mapping[str, Union[str, bytes]]] = None,
              input_parameters: Optional[Mapping[str, Mapping[str, Any]]] = None) -> Result:  # fmt: skip
        """One request, one answer. Raises anyserve.Error.

        inputs: a mapping of name to array; lists get the datatype that the model declares, numpy arrays keep theirs.
        outputs: the names of the outputs to return; default: all.
        input_parameters: parameters of single inputs, by the name of the input.
        """
        local, number, m = self._unary(model, version)
        self._may_wait(local, "await client.infer_async(...)")
        message = _message(m, inputs, parameters, id, metadata, input_parameters)
        answers = Stream((m, id, outputs), lambda put: local.begin(number, message, put))
        try:
            return answers.only()
        except KeyboardInterrupt:
            answers.call.cancel()
            raise

    async def infer_async(self, model: str, inputs: Optional[Inputs] = None, *, version: Optional[str] = None,
                          outputs: Optional[Sequence[str]] = None, parameters: Optional[Mapping[str, Any]] = None,
                          id: str = "",
                          metadata: Optional[Mapping[str, Union[str, bytes]]] = None,
                          input_parameters: Optional[Mapping[str, Mapping[str, Any]]] = None) -> Result:  # fmt: skip
        """Like infer, for code on an event loop; cancelling it cancels the request."""
        import asyncio

        local, number, m = self._unary(model, version)
        message = _message(m, inputs, parameters, id, metadata, input_parameters)
        answers = AsyncStream((m, id, outputs), lambda put: local.begin(number, message, put))
        try:
            return await answers.only()
        except asyncio.CancelledError:
            answers.call.cancel()
            raise

    def stream(self, model: str, inputs: Union[None, Inputs, Iterable[Inputs]] = None, *,
               version: Optional[str] = None, outputs: Optional[Sequence[str]] = None,
               parameters: Optional[Mapping[str, Any]] = None, id: str = "",
               metadata: Optional[Mapping[str, Union[str, bytes]]] = None,
               input_parameters: Optional[Mapping[str, Mapping[str, Any]]] = None) -> Stream:  # fmt: skip
        """One request, any number of answers: returns an iterator, which is also a context manager.

        inputs: for a handler that gets a stream of requests also an iterable of mappings, which a thread reads.
        """
        local, number = self._find(model, version)
        self._may_wait(local, "client.stream_async(...)")
        m = local.models[number]
        message = functools.partial(_message, m, parameters=parameters, id=id, metadata=metadata,
                                    input_parameters=input_parameters)  # fmt: skip
        if inputs is None or isinstance(inputs, collections.abc.Mapping):
            one = message(inputs)
            return Stream((m, id, outputs), lambda put: local.begin(number, one, put, stream=True))
        _check_takes_stream(m)
        rest = iter(inputs)
        first = next(rest, None)
        if first is None:
            raise ValueError("a stream of requests has at least one")
        one = message(first)
        stream = Stream((m, id, outputs), lambda put: local.begin(number, one, put, stream=True, more=True))
        threading.Thread(target=_feed, args=(stream.call, map(message, rest)), daemon=True).start()
        return stream

    def stream_async(self, model: str, inputs: Union[None, Inputs, Iterable[Inputs]] = None, *,
                     version: Optional[str] = None, outputs: Optional[Sequence[str]] = None,
                     parameters: Optional[Mapping[str, Any]] = None, id: str = "",
                     metadata: Optional[Mapping[str, Union[str, bytes]]] = None,
                     input_parameters: Optional[Mapping[str, Mapping[str, Any]]] = None) -> AsyncStream:  # fmt: skip
        """Like stream, for code on an event loop (`async for`). A stream of requests may also be an async iterable."""
        local, number = self._find(model, version)
        m = local.models[number]
        message = functools.partial(_message, m, parameters=parameters, id=id, metadata=metadata,
                                    input_parameters=input_parameters)  # fmt: skip
        if inputs is None or isinstance(inputs, collections.abc.Mapping):
            one = message(inputs)
            return AsyncStream((m, id, outputs), lambda put: local.begin(number, one, put, stream=True))
        _check_takes_stream(m)
        return _RequestStream((m, id, outputs), local, number, message, inputs)

    # --- hooks ---

    def check_health(self) -> None:
        """Calls check_health of the models' classes and of the module. Raises anyserve.Error."""
        self._ask(lifecycle.HEALTH, "")

    def reconfigure(self, user_config: Any) -> None:
        """Calls their reconfigure, as a server does when user_config changes. Raises anyserve.Error."""
        import json

        self._ask(lifecycle.RECONFIGURE, json.dumps({"user_config": user_config}))

    def _ask(self, op: int, text: str) -> None:
        self.start()
        for local in self._locals:
            self._may_wait(local, "it outside of handlers")
            status, why = local.ask(op, text)
            if status:
                raise error_of(Answer(None, {}, status, why))


def _check_takes_stream(m: Model) -> None:
    if m.stream is None:
        raise TypeError("model %r takes one request at a time: inputs is a mapping" % m.name)


class _RequestStream(AsyncStream):
    """A stream of requests, and a stream of answers."""

    def __init__(self, answers: Tuple[Any, ...], local: Local, number: int, message: Callable[[Inputs], Message],
                 inputs: Any) -> None:  # fmt: skip
        self._source = _each(inputs)
        self._local, self._number, self._message = local, number, message
        self._feeder: "Optional[asyncio.Task[None]]" = None
        super().__init__(answers, lambda put: Call(local, put))

    async def _begin(self) -> None:
        import asyncio

        first = None
        async for first in self._source:
            break
        if first is None:
            raise ValueError("a stream of requests has at least one")
        self.call = self._local.begin(self._number, self._message(first), self._put, stream=True, more=True)

        async def messages() -> AsyncIterator[Message]:
            async for i in self._source:
                yield self._message(i)

        self._feeder = asyncio.create_task(_feed_async(self.call, messages()))

    async def __anext__(self) -> Result:
        if self._feeder is None and not self._ended:
            await self._begin()
        try:
            return await super().__anext__()
        except BaseException:
            if self._ended and self._feeder is not None:
                self._feeder.cancel()
            raise

    async def aclose(self) -> None:
        if self._feeder is None:
            self._ended = True
        else:
            self._feeder.cancel()
        await super().aclose()


async def _each(inputs: Any) -> AsyncIterator[Inputs]:
    if isinstance(inputs, collections.abc.AsyncIterable):
        async for i in inputs:
            yield i
    else:
        for i in inputs:
            yield i
