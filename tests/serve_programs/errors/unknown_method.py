"""A method that does not exist fails when the answer is read, not when it is called; others go on."""

from anyserve import serve


@serve.deployment
class NoCall:
    def ping(self):
        return "pong"


@serve.deployment
class Caller:
    def __init__(self, other):
        self.other = other

    async def __call__(self):
        response = self.other.nothing.remote()
        try:
            await response
        except Exception as e:
            return "AttributeError" if type(e) is AttributeError else "another error"


handle = serve.run(Caller.bind(NoCall.bind()), name="methods", route_prefix=None)
print(handle.remote().result())
other = serve.get_deployment_handle("NoCall", "methods")
for response in (other.remote(), other.absent.remote()):
    try:
        response.result()
    except Exception as e:
        print("refused", "ping" in str(e))
print(other.ping.remote().result())
serve.shutdown()
