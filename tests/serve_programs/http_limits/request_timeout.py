"""request_timeout_s: 408, and the handler is cancelled."""

import asyncio
import os

import httpx

from anyserve import serve

client = httpx.Client(base_url="http://127.0.0.1:" + os.environ.get("PORT", "8000"), trust_env=False, timeout=60)

@serve.deployment
class Slow:
    def __init__(self):
        self.cancelled = 0

    async def __call__(self, request):
        try:
            await asyncio.sleep(float(request.query_params.get("s", 0)))
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return "cancelled before: %d" % self.cancelled


serve.start(http_options={"port": client.base_url.port, "request_timeout_s": 1.0})
serve.run(Slow.bind())
print(client.get("/").text)
r = client.get("/?s=30", headers={"X-Request-ID": "late"})
print(r.status_code, r.text)
while client.get("/").text.endswith("0"):  # the handler hears of it after the client
    pass
print(client.get("/").text)
serve.shutdown()
