"""What a cancelled method asks of actors is done: it gives back what it has taken."""

import asyncio

import ray
from ray import serve

ray.init(ignore_reinit_error=True)


@ray.remote
class Seats:
    def __init__(self):
        self.taken, self.news = [], asyncio.Condition()

    async def note(self, what):
        async with self.news:
            self.taken.append(what)
            self.news.notify_all()

    async def wait_for(self, what):
        async with self.news:
            await self.news.wait_for(lambda: what in self.taken)


@serve.deployment
class Booking:
    def __init__(self, seats):
        self.seats = seats

    async def __call__(self, who):
        try:
            await self.seats.note.remote("taken by " + who)
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await self.seats.note.remote("given back by " + who)
            raise

    async def stream(self, who):
        try:
            yield "first"
            await asyncio.Event().wait()
        except (asyncio.CancelledError, GeneratorExit):
            self.seats.note.remote("given back by " + who)  # not awaited
            raise


seats = Seats.remote()
handle = serve.run(Booking.bind(seats), name="booking", route_prefix=None)
response = handle.remote("ann")
ray.get(seats.wait_for.remote("taken by ann"), timeout=30)
response.cancel()
try:
    response.result()
except ray.exceptions.TaskCancelledError as e:
    print(type(e).__name__)
ray.get(seats.wait_for.remote("given back by ann"), timeout=30)
print("ann's seat is free")
results = handle.options(stream=True).stream.remote("bob")
print(next(results))
results.cancel()
ray.get(seats.wait_for.remote("given back by bob"), timeout=30)
print("bob's seat is free")
serve.shutdown()
ray.shutdown()
