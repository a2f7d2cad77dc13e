"""For handlers under test: tells the test that a handler runs and waits there for the test's word.

The other end is support/stage.py. No handler waits for time.
"""

import asyncio
import contextlib
import json
import os
import socket

PATH = os.environ.get("ANYSERVE_TEST_STAGE", "")


def _hello(tag):
    return json.dumps({"tag": tag, "pid": os.getpid()}).encode() + b"\n"


def wait(tag=""):
    """Until the test says go; returns its word."""
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(PATH)
        s.sendall(_hello(tag))
        return act(s.makefile().readline().strip())


async def wait_async(tag=""):
    reader, writer = await asyncio.open_unix_connection(PATH)
    try:
        writer.write(_hello(tag))
        return act((await reader.readline()).decode().strip())
    except asyncio.CancelledError:
        writer.write(b"cancelled\n")
        raise
    finally:
        writer.close()


@contextlib.contextmanager
def scene(tag=""):
    """A scene that goes on by itself; yields what it says words to the test with."""
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(PATH)
        s.sendall(_hello(tag))
        yield lambda word: s.sendall(f"{word}\n".encode())


def wait_cancelled(tag, request):
    """Until request.cancelled, which a sync handler can only look at."""
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(PATH)
        s.sendall(_hello(tag))
        s.settimeout(0.002)
        while not request.cancelled:
            try:
                if not s.recv(1):
                    raise RuntimeError("the test is over")
            except TimeoutError:
                pass
        s.sendall(b"cancelled\n")


def act(word):
    if word == "raise":
        raise RuntimeError("as the test said")
    if word == "exit":
        os._exit(3)
    if word == "abort":
        os.abort()
    return word
