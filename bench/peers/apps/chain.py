"""(b) HTTP ingress → handle → echo."""

from anyserve import serve


@serve.deployment(max_ongoing_requests=100)
class Echo:
    async def __call__(self, body):
        return body


@serve.deployment(max_ongoing_requests=100)
class Front:
    def __init__(self, echo):
        self.echo = echo

    async def __call__(self, request):
        return await self.echo.remote(await request.body())


app = Front.bind(Echo.bind())
