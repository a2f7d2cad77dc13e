"""Actors: state, order, handles as arguments, names, concurrency, errors, and their end."""

import asyncio
import os
import time

import ray

ray.init(ignore_reinit_error=True, namespace="actors")


@ray.remote
class Counter:
    def __init__(self, start=0):
        self.value = start

    def add(self, n=1):
        self.value += n
        return self.value

    def fail(self):
        raise ValueError("value is %d" % self.value)

    @ray.method(num_returns=2)
    def both(self):
        return self.value, -self.value

    def numbers(self, n):
        for i in range(n):
            yield i

    def die(self):
        os._exit(1)


@ray.remote
class Signal:
    def __init__(self):
        self.event = asyncio.Event()

    async def wait(self):
        await self.event.wait()
        return "sent"

    async def send(self):
        self.event.set()


@ray.remote(max_concurrency=4)
class Threads:
    def nap(self, i):
        time.sleep(1)
        return i


@ray.remote
class Broken:
    def __init__(self):
        raise OSError("no weights")

    def ping(self):
        return "pong"


@ray.remote
def use(counter, n):
    return ray.get(counter.add.remote(n))


counter = Counter.remote(10)
print(ray.get([counter.add.remote(i) for i in range(5)]))
print(ray.get(use.remote(counter, 100)), ray.get(counter.add.remote()))
print(ray.get(counter.both.remote()))
print([ray.get(ref) for ref in counter.numbers.options(num_returns="streaming").remote(3)])
try:
    ray.get(counter.fail.remote())
except ValueError as e:
    print("ValueError", str(e).strip().splitlines()[-1])
try:
    counter.absent
except AttributeError as e:
    print("AttributeError", e)

signal = Signal.remote()
waiting = [signal.wait.remote() for _ in range(3)]
print(len(ray.wait(waiting, timeout=0.2)[0]))
signal.send.remote()
print(ray.get(waiting))

threads = Threads.remote()
ray.get(threads.nap.remote(0))
began = time.monotonic()
print(ray.get([threads.nap.remote(i) for i in range(4)]), time.monotonic() - began < 3)

named = Counter.options(name="named", max_restarts=0).remote(7)
print(ray.get(ray.get_actor("named").add.remote()))
again = Counter.options(name="named", get_if_exists=True).remote(1000)
print(ray.get(again.add.remote()))
try:
    Counter.options(name="named").remote()
except ValueError as e:
    print("ValueError")
ray.kill(named)
try:
    ray.get(again.add.remote())
except ray.exceptions.RayActorError as e:
    print("RayActorError", isinstance(e, ray.exceptions.ActorDiedError))

dies = Counter.remote()
print(ray.get(dies.add.remote()))
for _ in range(2):
    try:
        ray.get(dies.die.remote())
    except ray.exceptions.RayActorError:
        print("it died")
broken = Broken.remote()
try:
    ray.get(broken.ping.remote())
except ray.exceptions.RayActorError as e:
    print("it never ran", "no weights" in str(e))
for wrong in (lambda: Counter(), lambda: counter.add(), lambda: ray.get_actor("absent"), lambda: ray.kill(1)):
    try:
        wrong()
    except Exception as e:
        print(isinstance(e, (TypeError, ValueError)))
ray.shutdown()
