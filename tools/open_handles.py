#!/usr/bin/env python3
"""What the open handles of 1,000 replicas cost the dispatcher: `tools/open_handles.py [--build build/release] [--links 1000]`.

The replicas are links that this program drives by hand (tests/e2e/support/protocol/link.py), without a process each: to the dispatcher each
is a process that calls (a link with its table of targets, its windows and its accounts). Each says what its handles stand for, calls
once, and keeps one more call open whose answer does not come. Prints the dispatcher's resident memory after each step, and its
CPU time: of each call, and in --seconds in which nothing but pings goes over the links.
"""

import argparse
import os
import pickle
import resource
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

APP = """
import asyncio
from anyserve import serve


@serve.deployment(max_ongoing_requests=65535, max_queued_requests=-1)
class Leaf:
    def __init__(self):
        self.never = asyncio.Event()

    async def __call__(self):
        return None

    async def wait(self):
        await self.never.wait()


app = Leaf.bind()
"""


def resident(pid):
    """MiB."""
    return int(Path("/proc/%d/statm" % pid).read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def cpu_seconds(pid):
    fields = Path("/proc/%d/stat" % pid).read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def take(link, driver, kind):
    """The next frame of this kind; the limits (CREDIT) and pings are passed over."""
    while (f := driver.next(kind, link.CREDIT)).type != kind:
        pass
    return f


def measure(options, server, link):
    token = Path(server.folder_of_port(), "driver-token").read_text().strip()
    dispatcher = server.dispatcher
    args = pickle.dumps(((), {}))

    def connect(i):
        w = link.Worker(server, "", "replica-%d" % i, token, capabilities=link.CAP_CALLS | link.CAP_DRIVER)
        w.greeted()
        return w

    def say(text):
        print("%-46s %6.1f MiB" % (text, resident(dispatcher)), flush=True)

    say("the server alone")
    links = [connect(i) for i in range(options.links)]
    say("%d links" % options.links)
    for w in links:
        for number in range(options.handles):
            w.send(link.target(number, "default", "Leaf"))
        w.send(link.open_call(2, link.pickled(args)))
        take(link, w, link.DATA)
    say("each with %d handles, after a call" % options.handles)
    began = cpu_seconds(dispatcher)
    for round in range(options.rounds):
        for w in links:
            w.send(link.open_call(4 + 2 * round, link.pickled(args)))
        for w in links:
            take(link, w, link.DATA)
    n = options.rounds * options.links
    print("CPU of each of %d calls, %d at once: %.1f µs" % (n, options.links, (cpu_seconds(dispatcher) - began) / n * 1e6))
    say("after these")
    for w in links:
        w.send(link.open_call(4 + 2 * options.rounds, link.pickled(args, "wait")))
    while server.deployment("Leaf")["ongoing"] < options.links:
        time.sleep(0.01)
    say("with one call open in each")
    began = cpu_seconds(dispatcher)
    end = time.monotonic() + options.seconds
    while time.monotonic() < end:  # it must answer pings
        for w in links:
            w.sock.setblocking(False)
            try:
                w._fill(len(w._in) + 1)
            except BlockingIOError:
                pass
            w.sock.setblocking(True)
            while len(w._in) >= 64:
                f = w.read()
                if f.type == link.PING:
                    w.send(link.frame(link.PONG, f.payload))
        time.sleep(0.05)
    print("CPU while nothing is called: %.2f %% of a core" % ((cpu_seconds(dispatcher) - began) / options.seconds * 100))
    for w in links:
        w.sock.close()
    while server.status()["server"]["unanswered"]:
        time.sleep(0.01)
    say("when all are gone")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--links", type=int, default=1000)
    parser.add_argument("--handles", type=int, default=4, help="of each")
    parser.add_argument("--rounds", type=int, default=20, help="of calls, one over each link")
    parser.add_argument("--seconds", type=float, default=10)
    options = parser.parse_args()
    os.environ["ANYSERVE_BUILD"] = options.build
    sys.path.insert(0, str(ROOT / "tests/e2e"))
    from support.process.server import Server
    from support.protocol import link

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, options.links + 1000), most))
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "leaf.py")
        path.write_text(APP)
        server = Server("%s:app" % path)
        try:
            measure(options, server, link)
        finally:
            server.kill()


if __name__ == "__main__":
    main()
