"""gRPC by the user's proto: two applications, and deployments behind the ingress."""

import os

import grpc
import pantry

from anyserve import serve
from anyserve.serve.config import gRPCOptions

PORT = int(os.environ.get("GRPC_PORT", "9000"))
options = gRPCOptions(port=PORT, grpc_servicer_functions=["pantry:add_PantryServicer_to_server"])


@serve.deployment
class Tax:
    def __call__(self, value):
        return value + value // 5


@serve.deployment
class Prices:
    def __init__(self, name, tax):
        self.name, self.tax = name, tax

    async def Price(self, ask):
        return pantry.Answer(text="%s: %s" % (self.name, ask.name), value=await self.tax.remote(ask.count))

    def Names(self, ask):
        for word in ask.name.split():
            yield pantry.Answer(text=word)


serve.start(grpc_options=options)
serve.run(Prices.bind("first", Tax.bind()), name="first", route_prefix="/first")
stub = pantry.PantryStub(grpc.insecure_channel("127.0.0.1:%d" % PORT))
answer = stub.Price(pantry.Ask(name="tea", count=100))
print(answer.text, answer.value)
serve.run(Prices.bind("second", Tax.bind()), name="second", route_prefix="/second")
for name in ("first", "second"):
    answer = stub.Price(pantry.Ask(name="tea", count=50), metadata=[("application", name)])
    print(answer.text, answer.value)
    print([a.text for a in stub.Names(pantry.Ask(name="a b c"), metadata=[("application", name)])])
serve.shutdown()
