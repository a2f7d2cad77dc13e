"""A client for programs whose answers are checked one by one: HTTP/1.1, keep-alive, from one event loop.

It is written in Python, so that the caller can choose each request and read each answer; wrk (run.py) sends more requests/s.
"""

import asyncio
import random
import time
from dataclasses import dataclass

TIMEOUT = 60  # of one answer, seconds
HEAD = "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/octet-stream\r\nContent-Length: {length}\r\n{headers}\r\n"


class Broken(Exception):
    """A connection ended, or an answer is not one that this client reads."""


@dataclass
class Answer:
    due: float  # when the request was to be sent: time.monotonic(), seconds
    seconds: float  # from `due` to the end of the answer
    status: int
    body: bytes


def request(path="/", headers=None, body=b""):
    lines = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
    return HEAD.format(path=path, length=len(body), headers=lines).encode() + body


def parse(data):
    """(status, body, bytes that they took) of the first answer in `data`; None: it is not complete."""
    head, found, rest = data.partition(b"\r\n\r\n")
    if not found:
        return None
    first, *lines = head.split(b"\r\n")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines)}
    if headers.get(b"transfer-encoding") == b"chunked":
        body = parse_chunks(rest)
    elif b"content-length" in headers:
        length = int(headers[b"content-length"])
        body = (rest[:length], length) if len(rest) >= length else None
    else:
        raise Broken(f"an answer whose length is not known: {head!r}")
    return (int(first.split()[1]), body[0], len(head) + 4 + body[1]) if body else None


def parse_chunks(data):
    """(body, bytes that it took) of chunks without trailers; None: it is not complete."""
    body, at = b"", 0
    while True:
        end = data.find(b"\r\n", at)
        if end < 0:
            return None
        size, at = int(data[at:end].partition(b";")[0], 16), end + 2
        if len(data) < at + size + 2:
            return None
        body, at = body + data[at : at + size], at + size + 2
        if not size:
            return body, at


class Connection(asyncio.Protocol):
    """One request at a time."""

    def __init__(self):
        self.data, self.answer, self.transport = b"", None, None

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.data += data
        try:
            found = parse(self.data)
        except Broken as e:
            return self.fail(e)
        if found and self.answer and not self.answer.done():
            self.data = self.data[found[2] :]
            self.answer.set_result(found[:2])
        return None

    def connection_lost(self, exc):
        self.fail(Broken(f"the connection ended: {exc}"))

    def fail(self, error):
        if self.answer and not self.answer.done():
            self.answer.set_exception(error)
        self.transport.close()

    async def ask(self, data):
        if self.transport.is_closing():
            raise Broken("the connection is closed")
        self.answer = asyncio.get_running_loop().create_future()
        self.transport.write(data)
        return await self.answer


async def connect(port):
    _, connection = await asyncio.get_running_loop().create_connection(Connection, "127.0.0.1", port)
    return connection


async def closed_loop(port, requests, concurrency):
    """Answers to `requests` (bytes each) in their order: each of `concurrency` connections sends the next one when it is free."""
    answers, rest = [None] * len(requests), iter(enumerate(requests))

    async def user(connection):
        for n, data in rest:
            start = time.monotonic()
            status, body = await connection.ask(data)
            answers[n] = Answer(start, time.monotonic() - start, status, body)

    connections = [await connect(port) for _ in range(concurrency)]
    try:
        await asyncio.gather(*map(user, connections))
    finally:
        for connection in connections:
            connection.transport.close()
    return answers


async def open_loop(port, data, dues, most=500):
    """One request `data` at each time of `dues` (time.monotonic()), whatever the answers do. At most `most` connections; a request
    that waits for one counts from when it was due. A broken connection is an answer with status 0."""
    idle, room, answers = [], asyncio.Semaphore(most), []

    async def one(due):
        async with room:
            connection = None
            try:
                connection = idle.pop() if idle else await connect(port)
                status, body = await asyncio.wait_for(connection.ask(data), TIMEOUT)
                idle.append(connection)
            except (OSError, Broken, asyncio.TimeoutError) as e:
                status, body = 0, str(e).encode()
                if connection:
                    connection.transport.close()
        answers.append(Answer(due, time.monotonic() - due, status, body))

    tasks = []
    for due in dues:
        await asyncio.sleep(max(0, due - time.monotonic()))
        tasks.append(asyncio.ensure_future(one(due)))
    await asyncio.gather(*tasks)
    for connection in idle:
        connection.transport.close()
    return answers


def zipf(models, n, exponent, seed):
    """n numbers of models, 0 … models - 1, where model k is drawn with a weight of 1 / (k + 1) ** exponent."""
    weights = [1 / (k + 1) ** exponent for k in range(models)]
    return random.Random(seed).choices(range(models), weights, k=n)


def arrivals(rate_at, seconds, step=0.001):
    """When requests are due in 0 … seconds, at a rate of rate_at(t) requests/s: each when its share of the integral is reached, so
    that the load is the same in each run."""
    times, area = [], 0.0
    for k in range(round(seconds / step)):
        area += rate_at(k * step) * step
        if area >= len(times) + 0.5:
            times.append(k * step)
    return times


def percentile(values, p):
    """The smallest value that p percent of the values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * p // 100) - 1)]
