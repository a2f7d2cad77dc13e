"""FastAPI: forms and files."""

import os
from typing import Annotated

import httpx
from fastapi import FastAPI, File, Form, UploadFile

from anyserve import serve

client = httpx.Client(base_url="http://127.0.0.1:" + os.environ.get("PORT", "8000"), trust_env=False, timeout=60)
app = FastAPI()


@serve.deployment
@serve.ingress(app)
class Api:
    @app.post("/form")
    def form(self, name: Annotated[str, Form()], age: Annotated[int, Form()] = 3):
        return {"name": name, "age": age}

    @app.post("/file")
    async def file(self, file: UploadFile, note: Annotated[str, Form()] = "none"):
        data = await file.read()
        return {"name": file.filename, "type": file.content_type, "size": len(data), "sum": sum(data) % 1000, "note": note}

    @app.post("/files")
    async def files(self, files: list[UploadFile]):
        return [(f.filename, len(await f.read())) for f in files]

    @app.post("/raw")
    def raw(self, data: Annotated[bytes, File()]):
        return len(data)


serve.run(Api.bind())
print(client.post("/form", data={"name": "ann b", "age": 5}).json())
print(client.post("/form", data={"age": "x"}).status_code)
large = bytes(range(256)) * 8000
print(client.post("/file", files={"file": ("large.bin", large, "application/x-own")}, data={"note": "grün"}).json())
print(client.post("/files", files=[("files", ("a.txt", b"a" * 10)), ("files", ("b.txt", b"b" * 70_000))]).json())
print(client.post("/raw", files={"data": b"123"}).json())
serve.shutdown()
