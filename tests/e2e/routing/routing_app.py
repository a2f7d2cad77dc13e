"""Applications whose answers tell which replica has given them: multiplexed models, and sessions.

`models` serves HTTP and userdefined.Greeter; `front` calls it by a handle, as its query says.
"""

import asyncio
import json
import os

import greeter_pb2 as pb

from anyserve import serve

LOADS = os.environ.get("LOADS")  # the file with a line for each load of a model


@serve.deployment
class Models:
    @serve.multiplexed(max_num_models_per_replica=8)
    async def load(self, model_id):
        with open(LOADS, "a") as f:
            f.write(model_id + "\n")
        return model_id

    async def answer(self, gate=""):
        if gate:  # a FIFO: until somebody writes
            with await asyncio.to_thread(open, gate) as f:
                f.read()
        model_id = serve.get_multiplexed_model_id()
        return {"pid": os.getpid(), "replica": serve.get_replica_context().replica_tag,
                "model": await self.load(model_id) if model_id else ""}

    async def __call__(self, request):
        return await self.answer(request.query_params.get("gate", ""))

    async def Hello(self, request):
        return pb.Greeting(text=json.dumps(await self.answer()))


@serve.deployment
class Front:
    async def __call__(self, request):
        models, options = serve.get_app_handle("models"), dict(request.query_params)
        if "session_size" in options:
            options["session_id"] = "s" * int(options.pop("session_size"))
        try:
            return await models.options(method_name="answer", **options).remote()
        except Exception as e:
            return {"error": "%s: %s" % (type(e).__name__, e)}


class PidByWebsocket:
    """An ASGI application: each websocket gets one message."""

    async def __call__(self, scope, receive, send):
        if scope["type"] != "websocket":
            return
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.send", "text": str(os.getpid())})
        await send({"type": "websocket.close"})


@serve.deployment(num_replicas=3, max_ongoing_requests=10, request_router_config={"request_router_class": "session"})
@serve.ingress(PidByWebsocket())
class Sockets:
    pass


models = Models.bind()
sockets = Sockets.bind()
front = Front.bind()
