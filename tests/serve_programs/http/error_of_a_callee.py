"""An error of a deployment behind the ingress: 500, or what the ingress makes of it."""

import os

import httpx
from starlette.responses import JSONResponse

from anyserve import serve

client = httpx.Client(base_url="http://127.0.0.1:" + os.environ.get("PORT", "8000"), trust_env=False, timeout=60)

@serve.deployment
class Divide:
    def __call__(self, a, b):
        return a / b


@serve.deployment
class Front:
    def __init__(self, divide):
        self.divide = divide

    async def __call__(self, request):
        a, b = float(request.query_params["a"]), float(request.query_params["b"])
        if "safe" not in request.query_params:
            return await self.divide.remote(a, b)
        try:
            return await self.divide.remote(a, b)
        except ZeroDivisionError as e:
            return JSONResponse({"error": str(e).strip().splitlines()[-1]}, status_code=422)


serve.run(Front.bind(Divide.bind()))
for query in ("a=6&b=4", "a=1&b=0", "a=1&b=0&safe=1", "a=1"):
    r = client.get("/?" + query)
    print(query, r.status_code, r.text)
serve.shutdown()
