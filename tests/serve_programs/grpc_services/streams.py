"""gRPC by the user's proto: a stream of answers, a stream of questions, and both."""

import os

import grpc
import pantry

from anyserve import serve
from anyserve.serve.config import gRPCOptions

PORT = int(os.environ.get("GRPC_PORT", "9000"))
options = gRPCOptions(port=PORT, grpc_servicer_functions=["pantry:add_PantryServicer_to_server"])


@serve.deployment
class Pantry:
    async def Names(self, ask):
        for i in range(ask.count):
            yield pantry.Answer(text="%s %d" % (ask.name, i), value=i)

    async def Total(self, asks):
        total, names = 0, []
        async for ask in asks:
            total += ask.count
            names.append(ask.name)
        return pantry.Answer(text=",".join(names), value=total)

    async def Shout(self, asks):
        async for ask in asks:
            yield pantry.Answer(text=ask.name.upper() + "!", value=ask.count)


serve.start(grpc_options=options)
serve.run(Pantry.bind())
stub = pantry.PantryStub(grpc.insecure_channel("127.0.0.1:%d" % PORT))
print([(a.text, a.value) for a in stub.Names(pantry.Ask(name="bean", count=4))])
print([a.value for a in stub.Names(pantry.Ask(count=0))])
answer = stub.Total(pantry.Ask(name=n, count=c) for n, c in (("a", 1), ("b", 2), ("c", 3)))
print(answer.text, answer.value)
print([(a.text, a.value) for a in stub.Shout(pantry.Ask(name=n, count=i) for i, n in enumerate(("one", "two", "three")))])
serve.shutdown()
