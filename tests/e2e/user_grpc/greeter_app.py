"""Two applications that serve userdefined.Greeter."""

import asyncio
import threading

import greeter_pb2 as pb
import grpc

from anyserve import serve
from anyserve.serve.exceptions import BackPressureError, DeploymentUnavailableError
from anyserve.serve.utils import get_trace_context

@serve.deployment(max_ongoing_requests=8)
class Greeter:
    def __init__(self, word):
        self.word = word
        self.cancelled = 0

    async def Hello(self, request, grpc_context):
        what = request.name
        if what == "context":
            return pb.Greeting(text=repr(self.describe(grpc_context)))
        if what == "trailers":
            grpc_context.set_code(grpc.StatusCode.OK)
            grpc_context.set_details("all well")
            grpc_context.set_trailing_metadata([("first", "1"), ("raw-bin", b"\x00\xff"), ("first", "2")])
        elif what == "compress":
            grpc_context.set_compression(grpc.Compression(request.number))
            return pb.Greeting(text="x" * 200)
        elif what == "code":
            grpc_context.set_code(grpc.StatusCode.DATA_LOSS)
            grpc_context.set_details("lost\nin two lines: 100% ü ")
        elif what == "code and raise":
            grpc_context.set_code(grpc.StatusCode.FAILED_PRECONDITION)
            grpc_context.set_trailing_metadata([("why", "because")])
            raise ValueError("not now")
        elif what == "raise":
            raise ValueError("a value is wrong" + "!" * request.number)
        elif what == "backpressure":
            raise BackPressureError(3, 2)
        elif what == "unavailable":
            raise DeploymentUnavailableError("x")
        elif what == "timeout":
            raise TimeoutError
        elif what == "bad result":
            return {"text": "no message"}
        elif what == "bad trailer":
            grpc_context.set_trailing_metadata([("Bad Key", "1")])
        elif what == "sleep":
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
        elif what == "trace":
            return pb.Greeting(text=repr(await serve.get_app_handle("first").trace.remote()))
        elif what == "cancelled":
            return pb.Greeting(number=self.cancelled)
        return pb.Greeting(text=f"{self.word} {what}", data=request.data, number=len(request.data))

    def describe(self, context):
        from anyserve.serve.context import _serve_request_context

        current = _serve_request_context.get()
        return {"metadata": sorted(context.invocation_metadata()), "peer": context.peer(), "request_id": context.request_id(),
                "application": context.application(), "model": context.multiplexed_model_id(), "code": context.code(),
                "details": context.details(), "trailing": context.trailing_metadata(),
                "ids": (current.request_id, current.app_name, current.multiplexed_model_id, current.session_id),
                "same": current.grpc_context is context, "auth": context.auth_context(), "identities": context.peer_identities(),
                "parent": context.traceparent()}  # fmt: skip

    def Count(self, request):
        for i in range(request.number):
            yield pb.Greeting(text=threading.current_thread().name, number=i, data=request.data)
        if request.name == "raise":
            raise RuntimeError("in the middle")

    async def Total(self, stream):
        total, names = 0, []
        async for message in stream:
            total += message.number
            names.append(message.name)
            if message.name == "enough":
                break
            if message.name == "raise":
                raise ValueError("a message is wrong")
        return pb.Greeting(text=" ".join(names[:10]), number=total)

    async def Chat(self, stream, grpc_context):
        grpc_context.set_trailing_metadata([("kind", "chat")])
        yield pb.Greeting(text="welcome")
        async for message in stream:
            yield pb.Greeting(text=f"{self.word} {message.name}", number=message.number, data=message.data)
        yield pb.Greeting(text="bye")

    def trace(self):
        return get_trace_context()

    def __call__(self, what):
        return self.cancelled if what == "cancelled" else what


app = Greeter.bind("hello")


@serve.deployment
class Other:
    def Hello(self, request):
        return pb.Greeting(text="other " + request.name)


other = Other.bind()


@serve.deployment
class Numbers:
    """Serves userdefined.Numbers, which the two others do not."""

    async def Next(self, request):
        return pb.Greeting(number=request.number + 1)


numbers = Numbers.bind()
