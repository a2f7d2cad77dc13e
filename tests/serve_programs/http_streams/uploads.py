"""Request bodies: whole, and read piece by piece."""

import hashlib
import os

import httpx

from anyserve import serve

client = httpx.Client(base_url="http://127.0.0.1:" + os.environ.get("PORT", "8000"), trust_env=False, timeout=60)

@serve.deployment
class Upload:
    async def __call__(self, request):
        digest, size = hashlib.sha256(), 0
        if request.url.path == "/stream":
            async for piece in request.stream():
                digest.update(piece)
                size += len(piece)
        else:
            body = await request.body()
            digest.update(body)
            size = len(body)
        return [size, digest.hexdigest()[:16], request.headers.get("content-length")]


def pieces():
    for i in range(64):
        yield bytes([i]) * 20_000


serve.run(Upload.bind())
whole = b"".join(pieces())
print(len(whole), hashlib.sha256(whole).hexdigest()[:16])
for path in ("/stream", "/whole"):
    print(client.post(path, content=whole).json())
    print(client.post(path, content=pieces()).json())
    print(client.post(path, content=b"").json())
serve.shutdown()
