"""A worker is killed: how long until its replacement is ready, beside what a bare interpreter takes for the imports.

Beyond the import of the user's module, at most 1.5 × `python -c "import anyserve.worker"`, medians of the same run,
taken in turns; with a warm spare that waits, at most 50 ms. Begins at the kill, ends when the dispatcher's line event=worker_ready is read from the server's
output.
"""

import os
import random
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import rig

COUNT = 40
MOST = 1.5
MOST_SPARE = 50  # ms


def bare(statement):
    """Seconds that an interpreter of its own takes, as the workers have it."""
    env = {**os.environ, "PYTHONPATH": str(rig.paths.SDK)}
    begin = time.monotonic()
    subprocess.run([sys.executable, "-c", statement], env=env, cwd=rig.APPS, check=True)
    return time.monotonic() - begin


def replacement(server, replica, pid):
    """Seconds from the kill to READY."""
    since = len(server.log.lines)
    begin = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    found = server.log.wait(rf"dispatcher\] .*event=worker_ready replica={replica} ", since)
    return server.log.times[server.log.lines.index(found.string, since)] - begin


def part(name, model, options):
    count = options.count or COUNT
    pick = random.Random(options.seed)
    times = {"bare": [], "user": [], "restart": []}
    with rig.serving(rig.AnyServe(workers=2, model=f"{model}.py")) as server:
        for _ in range(count):
            times["bare"].append(bare("import anyserve.worker"))
            times["user"].append(bare(f"import anyserve.worker, {model}"))
            times["restart"].append(replacement(server, *pick.choice(sorted(server.workers().items()))))
            rig.wait_workers(server, 2)
    middle = {k: 1e3 * statistics.median(v) for k, v in times.items()}
    ratio = (middle["restart"] - (middle["user"] - middle["bare"])) / middle["bare"]
    result = rig.Result("restart", name, kills=count, restart_ms=round(middle["restart"], 1),
                        restart_max_ms=round(1e3 * max(times["restart"]), 1), bare_ms=round(middle["bare"], 1),
                        user_ms=round(middle["user"] - middle["bare"], 1), ratio=round(ratio, 2))
    if ratio > MOST:
        result.fault(f"{ratio:.2f} × the bare import, over {MOST}")
    return result


def has_spare(server):
    """Its process waits: nothing is left for it to do."""
    ready = set(server.workers().values())
    spares = [p for p in server.worker_pids() if p not in ready]
    return len(spares) == 1 and len(ready) == 2 and \
        Path(f"/proc/{spares[0]}/wchan").read_text().startswith("unix_stream")


def spared(name, model, options):
    count = options.count or COUNT
    pick = random.Random(options.seed)
    took = []
    with rig.serving(rig.AnyServe("--warm-spares", "1", workers=2, model=f"{model}.py")) as server:
        for _ in range(count):
            rig.wait.until(lambda: has_spare(server), "a spare that waits", 60)
            took.append(1e3 * replacement(server, *pick.choice(sorted(server.workers().items()))))
    took.sort()
    result = rig.Result("restart", name, kills=count, restart_ms=round(statistics.median(took), 1),
                        p99_ms=round(rig.quantile(took, .99), 1))
    if result.figures["restart_ms"] > MOST_SPARE:
        result.fault(f"{result.figures['restart_ms']} ms with a spare, over {MOST_SPARE}")
    return result


def run(options):
    for name, model in (("numpy, event loop", "model"), ("a module of nothing", "small")):
        if options.wants(name):
            yield part(name, model, options)
    for name, model in (("a spare, event loop", "model"), ("a spare, of nothing", "small")):
        if options.wants(name):
            yield spared(name, model, options)
