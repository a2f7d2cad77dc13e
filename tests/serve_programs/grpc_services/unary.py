"""gRPC by the user's proto: methods of the ingress deployment, metadata, the context, errors."""

import os

import grpc
import pantry

from anyserve import serve
from anyserve.serve.config import gRPCOptions

PORT = int(os.environ.get("GRPC_PORT", "9000"))
options = gRPCOptions(port=PORT, grpc_servicer_functions=["pantry:add_PantryServicer_to_server"])


@serve.deployment
class Prices:
    def __call__(self, ask):
        return pantry.Answer(text="called")

    def Price(self, ask, grpc_context):
        sent = dict(grpc_context.invocation_metadata())
        if ask.name == "nothing":
            grpc_context.set_code(grpc.StatusCode.NOT_FOUND)
            grpc_context.set_details("no such thing")
            raise KeyError(ask.name)
        grpc_context.set_trailing_metadata([("x-shop", "open"), ("x-sent", sent.get("x-own", "none"))])
        return pantry.Answer(text=ask.name.upper(), value=ask.count * 3)


serve.start(grpc_options=options)
serve.run(Prices.bind(), name="prices")
stub = pantry.PantryStub(grpc.insecure_channel("127.0.0.1:%d" % PORT))
answer, call = stub.Price.with_call(pantry.Ask(name="beans", count=7), metadata=[("x-own", "mine")])
print(answer.text, answer.value, call.code().name)
trailing = dict(call.trailing_metadata())
print(trailing["x-shop"], trailing["x-sent"], len(trailing["request_id"]))
answer, call = stub.Price.with_call(pantry.Ask(), metadata=[("request_id", "my id"), ("application", "prices")])
print(repr(answer.text), answer.value, dict(call.trailing_metadata())["request_id"])
print(len(stub.Price(pantry.Ask(name="x" * 200_000)).text))
for ask, metadata in ((pantry.Ask(name="nothing"), []), (pantry.Ask(name="beans"), [("application", "other")])):
    try:
        print(stub.Price(ask, metadata=metadata))
    except grpc.RpcError as e:
        print(e.code().name, e.details().strip().splitlines()[-1][:80])
serve.shutdown()
