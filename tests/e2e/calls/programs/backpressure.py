"""Two execute, two wait, all others are refused at once: exactly, from many threads at the same time."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from support import calling, wait

from anyserve import serve
from anyserve.serve.exceptions import BackPressureError

GATE = Path.cwd() / "gate"


@serve.deployment(max_ongoing_requests=2, max_queued_requests=2)
class Slow:
    def __call__(self, gate):
        while not Path(gate).exists():
            time.sleep(0.01)
        return "done"


def ask(handle, barrier, gate):
    barrier.wait()
    try:
        return handle.remote(str(gate)).result(timeout_s=60)
    except BackPressureError as e:
        return str(e)


def main():
    slow = serve.run(Slow.bind(), name="slow")
    for round in range(5):
        gate = GATE.with_name(f"gate{round}")
        barrier = threading.Barrier(32)
        before = calling.deployment("Slow")["counts"]["refused"]
        with ThreadPoolExecutor(32) as pool:
            answers = [pool.submit(ask, slow, barrier, gate) for _ in range(32)]
            wait.until(lambda: calling.deployment("Slow")["counts"]["refused"] - before == 28, calling.status)
            d = calling.deployment("Slow")
            print(d["ongoing"], d["queued"] + d["prefetched"], end=" ")
            gate.touch()
            said = sorted(a.result() for a in answers)
        print(said.count("done"), sorted(set(said) - {"done"}))
        calling.settle()


main()
