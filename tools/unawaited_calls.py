#!/usr/bin/env python3
"""What calls that nobody awaits cost in memory: `tools/unawaited_calls.py [--build build/release] [--calls 1000000]`.

A driver opens all calls at once, of a deployment with one replica, and keeps none of the responses; then it waits until the
replica has answered all. Prints the largest resident memory of the dispatcher and of the driver meanwhile.
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def resident(pid):
    """MiB."""
    return int(Path("/proc/%d/statm" % pid).read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def dispatcher_of(folder):
    (found,) = [int(p.parent.name) for p in Path("/proc").glob("[0-9]*/cmdline")
                if b"anyserve\0dispatcher" in p.read_bytes() and folder.encode() in p.read_bytes()]  # fmt: skip
    return found


def application(serve):
    @serve.deployment(max_ongoing_requests=100)
    class Count:
        def __init__(self):
            self.n = 0

        async def __call__(self, x):
            self.n += 1

        async def get(self):
            return self.n

    return Count.bind()


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--calls", type=int, default=1_000_000)
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT / options.build / "python"))
    sys.path.insert(1, str(ROOT / "tests/e2e"))
    os.environ["PYTHONPATH"] = str(ROOT / options.build / "python")
    from support import ports

    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(ANYSERVE_PORT=str(ports.free()), ANYSERVE_RUNTIME_DIR=folder + "/run", ANYSERVE_STATE_DIR=folder + "/state")
        from anyserve import serve

        handle = serve.run(application(serve))
        dispatcher = dispatcher_of(folder)
        before, most, own = resident(dispatcher), 0.0, resident(os.getpid())
        start = time.monotonic()
        for i in range(options.calls):
            handle.remote(i)
            if i % 1000 == 0:
                most, own = max(most, resident(dispatcher)), max(own, resident(os.getpid()))
        opened = time.monotonic() - start
        while handle.get.remote().result() < options.calls:
            most, own = max(most, resident(dispatcher)), max(own, resident(os.getpid()))
        print("%d calls opened in %.1f s, answered after %.1f s" % (options.calls, opened, time.monotonic() - start))
        print("dispatcher: %.0f MiB before, %.0f at most; driver: %.0f at most" % (before, most, own))
        serve.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
