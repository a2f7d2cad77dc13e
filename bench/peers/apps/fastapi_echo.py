"""(c) The same FastAPI application behind serve.ingress."""

from asgi_echo import app as asgi

from anyserve import serve


@serve.deployment(max_ongoing_requests=100)
@serve.ingress(asgi)
class Api:
    pass


app = Api.bind()
