"""Handles and responses against a transport that only remembers: what they ask of it, and what they refuse."""

import asyncio
import copy
import pickle
import sys
import threading

import pytest
from fake import PACKAGE

sys.path.insert(0, str(PACKAGE))
from anyserve.serve import _payload  # noqa: E402
from anyserve.serve._calls import transport as _transport  # noqa: E402
from anyserve.serve._calls.transport import CallMeta, FailedReply, current_request  # noqa: E402
from anyserve.serve.exceptions import BackPressureError, RayServeException, RequestCancelledError, error_of_status  # noqa: E402
from anyserve.serve.handle import DeploymentHandle, DeploymentResponse, DeploymentResponseGenerator  # noqa: E402


class Reply:
    def __init__(self, results, request_id="r-1"):
        self.results, self.request_id, self.cancels = results, request_id, 0

    def done(self):
        return bool(self.results)

    def result(self, timeout):
        if not self.results:
            raise TimeoutError("Timed out waiting for result.")
        if isinstance(self.results[0], BaseException):
            raise self.results[0]
        return self.results[0]

    def __await__(self):
        yield from asyncio.sleep(0).__await__()
        return self.result(None)

    def cancel(self):
        self.cancels += 1

    def next(self, timeout):
        if not self.results:
            raise StopIteration
        return self.results.pop(0)

    async def anext(self):
        if not self.results:
            raise StopAsyncIteration
        return self.results.pop(0)


class Transport:
    def __init__(self):
        self.calls, self.next = [], ["result"]

    def call(self, meta, args, kwargs, parent):
        body = _payload.encode_call(meta.method, args, kwargs)
        self.calls.append((meta, parent, body))
        return Reply(list(self.next))

    def broadcast(self, meta, args, kwargs, parent):
        self.calls.append((meta, parent, None))
        return Reply([(None, r) if isinstance(r, Exception) else (r, None) for r in self.next])


@pytest.fixture
def transport():
    transport = Transport()
    _transport.set_process_transport(transport)
    yield transport
    _transport.set_process_transport(None)


@pytest.fixture
def handle(transport):
    return DeploymentHandle("A", "app")


def test_what_a_call_says(handle, transport):
    assert handle.remote(1, k=2).result() == "result"
    handle.method.remote()
    handle.options(method_name="m", stream=True, multiplexed_model_id="id", session_id="s").remote()
    assert [c[0] for c in transport.calls] == [
        CallMeta("app", "A"), CallMeta("app", "A", "method"), CallMeta("app", "A", "m", True, "", "id", "s")]  # fmt: skip
    assert [c[1] for c in transport.calls] == [None] * 3
    assert not callable(handle) and handle.__call__.remote().result() == "result" and transport.calls[3][0].method == "__call__"
    assert _payload.decode_call(transport.calls[0][2]) == ("__call__", (1,), {"k": 2})


def test_the_parent_is_the_request_here(handle, transport):
    token = current_request.set("parent")
    handle.remote()
    current_request.reset(token)
    handle.remote()
    assert [c[1] for c in transport.calls] == ["parent", None]


def test_options_stay_and_do_not_change_the_handle(handle):
    one = handle.options(stream=True)
    assert one.method.options(session_id="s")._meta == CallMeta("app", "A", "method", True, "", "", "s")
    assert handle._meta == CallMeta("app", "A")
    placed = handle.options(priority=1, tenant="acme")
    assert (placed.method._meta.priority, placed.method._meta.tenant) == (1, "acme")
    for wrong in -1, 4:
        with pytest.raises(ValueError, match="priority is 0 to 3, not %d" % wrong):
            handle.options(priority=wrong)
    for wrong in "1", True, 1.0:
        with pytest.raises(TypeError, match="priority is a int, not"):
            handle.options(priority=wrong)
    with pytest.raises(TypeError, match="tenant is a text, not 5"):
        handle.options(tenant=5)
    assert handle.a.b._meta.method == "b"
    assert handle.method is handle.method


def test_names_and_repr(handle):
    assert (handle.deployment_name, handle.app_name) == ("A", "app")
    assert str(handle.deployment_id) == "Deployment(name='A', app='app')"
    assert repr(handle) == "DeploymentHandle(deployment='A')"
    assert repr(handle.m.remote()) == "DeploymentResponse(deployment='A', method='m', request_id='r-1')"
    assert DeploymentHandle("A").app_name == "default"


def test_initialized_with_the_first_use(handle):
    assert not handle.is_initialized and not handle.running_replicas_populated()
    assert handle.options(stream=True).is_initialized and handle.is_initialized
    other = DeploymentHandle("A")
    other._init(_prefer_local_routing=True)
    assert other.is_initialized
    with pytest.raises(RuntimeError, match="Handle has already been initialized"):
        other._init()
    with pytest.raises(TypeError, match="unexpected keyword argument 'nothing'"):
        DeploymentHandle("A")._init(nothing=1)


def test_equal_hashed_pickled_copied(handle):
    same, other = DeploymentHandle("A", "app"), handle.options(stream=True)
    assert handle == same and hash(handle) == hash(same) and handle != other and handle != "A"
    assert {handle: 1}[same] == 1
    for new in pickle.loads(pickle.dumps(other)), copy.copy(other), copy.deepcopy([other])[0]:
        assert new == other and new is not other and new.m.remote().request_id == "r-1"


@pytest.mark.parametrize("name", ["__array__", "__len__", "_repr_html_", "_ipython_display_"])
def test_names_that_python_and_notebooks_ask_for_are_no_methods(handle, name):
    assert not hasattr(handle, name)


@pytest.mark.parametrize("options, text", [
    ({"method_name": 3}, "method_name is a text, not 3"), ({"stream": 1}, "stream is a bool, not 1"),
    ({"session_id": None}, "session_id is a text, not None"), ({"steam": True}, "unexpected keyword argument 'steam'")])  # fmt: skip
def test_wrong_options(handle, options, text):
    with pytest.raises(TypeError, match=text):
        handle.options(**options)
    with pytest.raises(ValueError, match="request_serialization is one of"):
        handle.options(request_serialization="xml")
    assert handle.options(request_serialization="pickle", _by_reference=True, _prefer_local_routing=True) == handle


def test_await_and_result(handle):
    async def main():
        response = handle.remote()
        assert await response == "result" == await response
        assert await asyncio.gather(handle.remote(), handle.remote()) == ["result"] * 2
        assert await asyncio.wait_for(handle.remote(), 5) == "result"

    asyncio.run(main())
    assert handle.remote().result(timeout_s=1) == "result" == handle.remote().result(timeout_s=-1)


def test_sync_waiting_on_a_loop(handle, transport):
    async def main():
        with pytest.raises(RuntimeError) as e:
            handle.remote().result()
        assert str(e.value) == ("Sync methods should not be called from within an `asyncio` event loop. "
                                "Use `await response` instead.")  # fmt: skip
        assert handle.remote().result(_skip_asyncio_check=True) == "result"
        with pytest.raises(RuntimeError) as e:
            next(handle.options(stream=True).remote())
        assert str(e.value) == ("Sync methods should not be called from within an `asyncio` event loop. "
                                "Use `async for` or `await response.__anext__()` instead.")  # fmt: skip
        with pytest.raises(RuntimeError, match="await response.results_async"):
            handle.broadcast("m").results()
        # a thread beside the loop may wait
        assert await asyncio.to_thread(handle.remote().result) == "result"

    asyncio.run(main())


def test_a_timeout_does_not_cancel(handle, transport):
    transport.next = []
    response = handle.remote()
    with pytest.raises(TimeoutError):
        response.result(timeout_s=0.01)
    assert response._reply.cancels == 0 and not response.cancelled()


def test_cancel(handle):
    response = handle.remote()
    assert not response.cancelled()
    response.cancel()
    response.cancel()
    assert response.cancelled() and response._reply.cancels == 1


def test_streams(handle, transport):
    transport.next = [1, 2, 3]
    stream = handle.options(stream=True)
    assert isinstance(stream.remote(), DeploymentResponseGenerator)
    assert list(stream.remote()) == [1, 2, 3]

    async def main():
        response = stream.remote()
        return [await response.__anext__()] + [x async for x in response]

    assert asyncio.run(main()) == [1, 2, 3]


def test_what_a_stream_is_not(handle):
    response = handle.options(stream=True).remote()
    with pytest.raises(TypeError) as e:
        response.result()
    assert str(e.value) == ("`DeploymentResponseGenerator` doesn't support `.result()`. Use iteration instead: `for item in "
                            "response` (outside deployments) or `async for item in response` (inside deployments).")  # fmt: skip

    async def main():
        await response

    with pytest.raises(TypeError, match="`DeploymentResponseGenerator` cannot be awaited directly. Use `async for` or `await "
                                        "response.__anext__\\(\\)` instead."):  # fmt: skip
        asyncio.run(main())


def test_a_response_as_an_argument(handle, transport):
    first, second = handle.remote(), handle.remote()
    handle.remote(first, 1, k=second)
    body = transport.calls[-1][2]
    assert list(body.parts) == [first._reply, second._reply]
    answers = [_payload.pack(_payload.encode_answer(a)) for a in ("one", "two")]
    assert _payload.decode_call(body._replace(parts=answers)) == ("__call__", ("one", 1), {"k": "two"})


@pytest.mark.parametrize("argument", [lambda r: [r], lambda r: {"a": r}, lambda r: (1, (r,))])
def test_a_nested_response_is_refused_when_it_is_awaited(handle, argument):
    inner = handle.remote()
    response = handle.remote(argument(inner))
    with pytest.raises(RayServeException, match="`DeploymentResponse` is not serializable. If you are passing the "
                                                "`DeploymentResponse` in a nested object"):  # fmt: skip
        response.result()
    with pytest.raises(RayServeException):
        pickle.dumps(inner)


def test_a_stream_as_an_argument_is_refused(handle):
    response = handle.remote(handle.options(stream=True).remote())
    with pytest.raises(RuntimeError, match="Streaming deployment handle results cannot be passed to downstream handle calls."):
        response.result()


def test_what_cannot_be_sent_is_an_error_of_the_response(handle):
    response = handle.remote(threading.Lock())
    assert isinstance(response, DeploymentResponse)
    with pytest.raises(TypeError, match="lock"):
        response.result()
    stream = handle.options(stream=True).remote(threading.Lock())
    with pytest.raises(TypeError, match="lock"):
        next(stream)


def test_broadcast(handle, transport):
    transport.next = [1, ValueError("x"), 3]
    assert [str(r) for r in handle.broadcast("m").results(return_exceptions=True)] == ["1", "x", "3"]
    with pytest.raises(ValueError, match="x"):
        handle.broadcast("m").results()
    transport.next = [1, 2]

    async def main():
        return await handle.broadcast("m", 5).results_async(timeout_s=5)

    assert asyncio.run(main()) == [1, 2] and transport.calls[-1][0] == CallMeta("app", "A", "m")
    assert repr(handle.broadcast("m")) == "DeploymentBroadcastResponse()"
    with pytest.raises(ValueError, match="timeout_s must be None or non-negative."):
        handle.broadcast("m").results(timeout_s=-1)


def refused(deployment):
    text = "Request dropped due to backpressure (num_queued_requests=2, max_queued_requests=1)."
    error = error_of_status(8, text, application="refusals", deployment=deployment)
    assert isinstance(error, BackPressureError) and str(error) == text
    return error.status_code, error.retry_after_s


def test_a_handle_brings_what_its_deployment_says_to_refused_callers():
    made = DeploymentHandle("B", "refusals", _refusal=(429, 1.5))
    assert refused("B") == (429, 1.5) and refused("C") == (503, None)
    by_name = DeploymentHandle("B", "refusals")
    assert by_name == made and hash(by_name) == hash(made) and refused("B") == (429, 1.5)


@pytest.mark.parametrize("kept", [0, 1, 2])
def test_each_form_of_a_handle_brings_it_alone(kept):
    made = DeploymentHandle("B", "refusals", _refusal=(429, None))
    data = pickle.dumps([made, made.options(stream=True), made.method][kept])
    DeploymentHandle("B", "refusals", _refusal=(503, None))
    pickle.loads(data)
    assert refused("B") == (429, None)


class Slot:
    """A reservation that notes what is done with it."""

    def __init__(self, error=None):
        self.log, self.error = [], error

    async def reserved(self):
        if self.error is not None:
            raise self.error
        return "B-3"

    def dispatch(self, meta, args, kwargs):
        self.log.append((meta.method, meta.stream, args, kwargs))
        return FailedReply(KeyError("of the call"), "r-1")

    def release(self):
        self.log.append("released")


class SlotTransport:
    def __init__(self, error=None):
        self.slot, self.asked = Slot(error), []

    def reserve(self, meta, args, kwargs, parent):
        self.asked.append((meta.method, meta.multiplexed_model_id, args, kwargs))
        return self.slot


def test_a_slot_is_dispatched_once_and_given_back_else():
    transport = SlotTransport()
    handle = DeploymentHandle("B", "a", _transport=transport)

    async def main():
        async with handle.options(multiplexed_model_id="m").chat.choose_replica(1, k=2) as selection:
            response = handle.options(stream=True).other.dispatch(selection, 3, k=4)
            assert isinstance(response, DeploymentResponseGenerator)
            with pytest.raises(RuntimeError, match="dispatched already"):
                await handle.dispatch(selection)
            with pytest.raises(ValueError, match="handle of Deployment"):
                DeploymentHandle("C", "a").dispatch(selection)
            with pytest.raises(TypeError, match="choose_replica"):
                handle.dispatch("B-3")
        assert (selection.replica_id, selection.address) == ("B-3", ("127.0.0.1", None))
        assert selection.to_dict()["deployment"] == "B"
        assert transport.asked == [("chat", "m", (1,), {"k": 2})]
        assert transport.slot.log == [("other", True, (3,), {"k": 4})]
        async with handle.choose_replica() as selection:
            pass
        assert transport.slot.log[1:] == ["released"]
        with pytest.raises(RuntimeError, match="was given back"):
            await handle.dispatch(selection)
        with pytest.raises(ZeroDivisionError):
            async with handle.choose_replica():
                raise ZeroDivisionError
        assert transport.slot.log[1:] == ["released"] * 2

    asyncio.run(main())


def test_without_a_slot_nothing_is_left():
    transport = SlotTransport(BackPressureError(num_queued_requests=1, max_queued_requests=1))

    async def main():
        with pytest.raises(BackPressureError):
            async with DeploymentHandle("B", "a", _transport=transport).choose_replica():
                pass

    asyncio.run(main())
    assert transport.slot.log == ["released"]


def test_an_exception_of_cancelled_calls_is_ours():
    assert str(RequestCancelledError("r-1")) == "Request r-1 was cancelled."


def test_generic_types():
    assert DeploymentHandle[int] and DeploymentResponse[str] and DeploymentResponseGenerator[str]
