"""(a) The body comes back, by a plain deployment."""

from anyserve import serve


@serve.deployment(max_ongoing_requests=100)
class Echo:
    async def __call__(self, request):
        return await request.body()


app = Echo.bind()
