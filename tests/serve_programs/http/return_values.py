"""What a plain deployment returns, and what an HTTP client gets."""

import os

import httpx
import numpy as np
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response

from anyserve import serve

client = httpx.Client(base_url="http://127.0.0.1:" + os.environ.get("PORT", "8000"), trust_env=False, timeout=60)

@serve.deployment
class Values:
    def __call__(self, request):
        return {
            "/text": "grün",
            "/bytes": b"raw \xff",
            "/nothing": None,
            "/dict": {"b": 1, "a": [1.5, None, True], "ü": "ü"},
            "/list": [1, "two", {"three": 3}],
            "/number": 7,
            "/set": {1},
            "/array": np.arange(4, dtype=np.float32).reshape(2, 2),
            "/scalar": np.int64(5),
            "/response": Response(b"<b>bold</b>", status_code=418, headers={"x-own": "yes"}, media_type="text/html"),
            "/plain": PlainTextResponse("plain", status_code=202),
            "/json": JSONResponse({"a": 1}, headers={"cache-control": "no-store"}),
            "/redirect": RedirectResponse("/text"),
        }[request.url.path]


serve.run(Values.bind())
for path in ("text", "bytes", "nothing", "dict", "list", "number", "set", "array", "scalar", "response", "plain", "json", "redirect"):
    r = client.get("/" + path)
    print(path, r.status_code, r.headers.get("content-type"), r.content)
    print("   ", r.headers.get("x-own"), r.headers.get("cache-control"), r.headers.get("location"))
serve.shutdown()
