#!/usr/bin/env python3
"""The worker behind HAProxy: plain HTTP/1.1, naps as apps/model.py does, gives the request's id back.

    tests/chaos/plain_worker.py PORT

The standard library only, so that it starts as quickly as a Python worker can.
"""

import asyncio
import os
import socket
import sys

NAP = 0.020  # seconds, as in apps/model.py
HEALTH = b"GET /health"


def journal():
    folder = os.environ.get("CHAOS_JOURNAL")
    if not folder:
        return None
    return os.open(os.path.join(folder, str(os.getpid())), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


async def answer(reader, writer, out):
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            fields = dict(line.lower().split(b":", 1) for line in head.split(b"\r\n")[1:] if b":" in line)
            body = await reader.readexactly(int(fields.get(b"content-length", b"0")))
            if head.startswith(HEALTH):
                reply = b"{}"
            else:
                number = body.split(b'"data": [', 1)[1].split(b"]")[0]
                if out is not None:
                    os.write(out, number + b"\n")
                await asyncio.sleep(NAP)
                reply = b'{"outputs": [{"data": [%s]}]}' % number
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
                         % (len(reply), reply))
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def main(port):
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    out = journal()
    server = await asyncio.start_server(lambda r, w: answer(r, w, out), sock=listener)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
