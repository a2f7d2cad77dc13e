"""What replicas tell actors when they end: in `__del__`, sync and async, and when an application shuts down."""

import asyncio

import fastapi
import ray
from ray import serve

ray.init(ignore_reinit_error=True)
app = fastapi.FastAPI()


@ray.remote
class Book:
    def __init__(self):
        self.lines, self.news = [], asyncio.Condition()

    async def write(self, line):
        async with self.news:
            self.lines.append(line)
            self.news.notify_all()

    async def wait_for(self, line):
        async with self.news:
            await self.news.wait_for(lambda: line in self.lines)
        return line


book = Book.remote()


@serve.deployment
class Sync:
    def hello(self):
        return "served"

    def __del__(self):
        book.write.remote("sync")


@serve.deployment
class Async:
    async def hello(self):
        return "served"

    async def __del__(self):
        await book.write.remote("async")


@app.on_event("shutdown")
async def told():
    book.write.remote("shutdown")


@serve.deployment
@serve.ingress(app)
class Web:
    def hello(self):
        return "served"


for deployment, line in (Sync, "sync"), (Async, "async"), (Web, "shutdown"):
    handle = serve.run(deployment.bind(), name="one", route_prefix=None)
    print(handle.hello.remote().result())
    serve.delete("one")
    print(ray.get(book.wait_for.remote(line), timeout=30))
serve.shutdown()
ray.shutdown()
