"""Files of any size come in piece by piece, and go out so: python http_upload.py"""

import hashlib
import os
from typing import Any, AsyncIterator, Dict
from urllib.request import Request, urlopen

import starlette.requests
from starlette.responses import StreamingResponse

from anyserve import serve

URL = "http://127.0.0.1:%s" % os.environ.get("ANYSERVE_PORT", "8000")
SIZE = 20_000_000


@serve.deployment(max_ongoing_requests=20)
class Files:
    async def __call__(self, request: starlette.requests.Request) -> Any:
        return await self.take(request) if request.method == "PUT" else StreamingResponse(self.give())

    async def take(self, request: starlette.requests.Request) -> Dict[str, Any]:
        """A client that sends faster than this reads has to wait: no more than a part of the file is in memory."""
        digest, size = hashlib.sha256(), 0
        async for piece in request.stream():
            digest.update(piece)
            size += len(piece)
        return {"size": size, "sha256": digest.hexdigest()[:16]}

    async def give(self) -> AsyncIterator[bytes]:
        """The same the other way: this waits for the client."""
        for _ in range(SIZE // 100_000):
            yield bytes(100_000)


app = Files.bind()

if __name__ == "__main__":
    serve.run(app)
    print(urlopen(Request(URL + "/", bytes(SIZE), method="PUT")).read().decode())
    print(len(urlopen(URL + "/").read()))
