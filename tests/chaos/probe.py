"""Asks one server over and over whether it lives, and tells how long each answer took: [[begin, seconds], …] as JSON.

    probe.py HOST PORT        until its standard input ends; begin is of the monotonic clock
"""

import json
import select
import socket
import sys
import time

QUESTION = b"GET /v2/health/live HTTP/1.1\r\nhost: probe\r\n\r\n"


def main():
    took = []
    with socket.create_connection((sys.argv[1], int(sys.argv[2]))) as s:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        print("began", flush=True)
        while not select.select([sys.stdin], [], [], 0)[0]:
            begin = time.monotonic()
            s.sendall(QUESTION)
            answer = s.recv(65536)
            assert answer.startswith(b"HTTP/1.1 200"), answer
            took.append((begin, time.monotonic() - begin))
    json.dump(took, sys.stdout)


if __name__ == "__main__":
    main()
