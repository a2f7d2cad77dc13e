"""What the scenarios share: a server, a load beside it, a killer, and figures of what came of it."""

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import types
from pathlib import Path

HERE = Path(__file__).resolve().parent
APPS = HERE / "apps"
sys.path.insert(0, str(HERE.parent / "e2e"))

from security.certificates import Authority  # noqa: E402
from support import deployments, paths, wait  # noqa: E402
from support.process import procs  # noqa: E402
from support.process.server import Server  # noqa: E402

ENOUGH = 0.9  # of the planned load, or the run says nothing


class AnyServe(Server):
    """A file of apps/ with `workers` replicas. tls: by TLS; then `ca` is who has signed its certificate, `pair`."""

    name = "AnyServe"

    def __init__(self, *options, workers=4, journal=None, rss=0, env=None, model="model.py", wait_ready=True, tls=False):
        self.ca = self.pair = None
        if tls:
            self._certificates = tempfile.TemporaryDirectory()
            self.authority = Authority(Path(self._certificates.name))
            self.ca, self.pair = self.authority.cert, self.authority.server()
            options += tuple(self.pair.options)
        env = {**(env or {}), "CHAOS_RSS": str(rss), **({"CHAOS_JOURNAL": str(journal)} if journal else {})}
        super().__init__(APPS / model, "--workers", str(workers), *options, env=env, cwd=APPS, wait_ready=wait_ready)


class Started(Server):
    """A server of the deployment file spec("first"), with its state in `folder`, at the control API."""

    def __init__(self, folder, *options, env=None, wait_ready=True):
        file = os.path.join(folder, "anyserve.yaml")
        with open(file, "w", encoding="utf-8") as f:
            json.dump(self.spec("first"), f)
        super().__init__(file, "--state-dir", os.path.join(folder, "state"), "--restart-backoff", "10ms", *options, verb="start",
                         env=env, wait_ready=wait_ready)

    def spec(self, version):
        raise NotImplementedError

    def api(self, method, body=None):
        status, answer = deployments.api(self, method, deployments.APPLICATIONS, body)
        assert status == 200, answer
        return answer


class Load:
    """load.py in a process of its own, so that the harness does not slow it down. With a period the load rises and falls: `rate`
    in the first half of each, `low_rate` in the second. With a `ca` it comes by TLS."""

    def __init__(self, address, protocol="grpc", model="nap", rate=200, timeout=10, retry=0, transparent=False, low_rate=0,
                 period=0, ca=None):
        self._rates, self._period = (rate, low_rate), period
        command = [sys.executable, HERE / "load.py", address, "--protocol", protocol, "--model", model, "--rate", rate,
                   "--timeout", timeout, "--retry", retry, "--low-rate", low_rate, "--period", period,
                   *(["--transparent"] if transparent else []), *(["--ca", ca] if ca else [])]
        env = {**os.environ, "ANYSERVE_BUILD": str(paths.BUILD)}
        self._process = subprocess.Popen([str(c) for c in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                         env=env)
        assert self._process.stdout.readline() == b"began\n", "the load did not begin"
        self.began = time.monotonic()

    def end(self):
        """No call is due any more; the outcome of all."""
        self.seconds = time.monotonic() - self.began
        self._process.stdin.close()
        out = json.loads(self._process.stdout.read())
        assert self._process.wait() == 0
        return Outcome(out, self._wanted())

    def _wanted(self):
        """Calls that were due."""
        high, low = self._rates
        if not self._period:
            return high * self.seconds
        half, (whole, rest) = self._period / 2, divmod(self.seconds, self._period)
        return whole * half * (high + low) + min(rest, half) * high + max(rest - half, 0) * low

    def abandon(self):
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


@contextlib.contextmanager
def loaded(server, **how):
    """Load for as long as the block runs; what it yields has `outcome` afterwards."""
    load, result = Load(server.address, **how), types.SimpleNamespace()
    try:
        yield result
        result.outcome = load.end()
    finally:
        load.abandon()


class Bench:
    """`anyserve bench` as an open loop of calls of a model with an input `id`: a client that does not hold itself up.
    cpus: where it runs."""

    def __init__(self, server, model, rate, seconds, *options, cpus=None):
        command = [paths.BINARY, "bench", model, "--url", server.address, "--input", "id:INT64:[1]=[1]", "--rate", round(rate),
                   "--duration", f"{seconds}s", "--json", *options]
        self._process = subprocess.Popen([str(c) for c in command], stdout=subprocess.PIPE,
                                         preexec_fn=(lambda: os.sched_setaffinity(0, cpus)) if cpus else None)

    @property
    def goes_on(self):
        return self._process.poll() is None

    def end(self):
        """Its result, as --json prints it."""
        out = json.loads(self._process.stdout.read())
        self._process.wait()
        return out

    def abandon(self):
        self._process.kill()
        self._process.wait()


class Outcome:
    """What came of a load."""

    def __init__(self, out, wanted):
        self.rows, self.refused = out["rows"], out["refused"]
        self.errors = [r for r in self.rows if r[2]]
        self.flagged = [r for r in self.errors if r[4]]
        self.share = len(self.rows) / wanted if wanted else 0
        self._sorted = sorted(r[1] for r in self.rows)

    @property
    def valid(self):
        return self.share >= ENOUGH

    def latency(self, q):
        """Milliseconds."""
        return round(1e3 * quantile(self._sorted, q), 1)

    def figures(self):
        return {"calls": len(self.rows), "errors": len(self.errors), "p50_ms": self.latency(.5),
                "p99_ms": self.latency(.99), "p99_9_ms": self.latency(.999), "max_ms": self.latency(1),
                "load": round(self.share, 3)}

    def examples(self):
        """The most common errors, each once."""
        texts = [re.sub(r"\d+", "N", r[2])[:100] for r in self.errors]
        return {t: texts.count(t) for t in sorted(set(texts), key=texts.count, reverse=True)[:4]}


def quantile(ordered, q):
    return ordered[min(int(len(ordered) * q), len(ordered) - 1)] if ordered else 0.0


class Killer:
    """Kills a random worker at random moments, `rate` times a second on average, `count` times in all."""

    SIGNAL = signal.SIGKILL

    def __init__(self, server, rate, count, seed):
        self.kills, self._server, self._rate, self._count = [], server, rate, count
        self._random = random.Random(seed)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        due = time.monotonic()
        while len(self.kills) < self._count:
            # half the distance is fixed: storms within the storm, but the planned rate is kept
            due += self._random.uniform(0.5, 1.5) / self._rate
            if (ahead := due - time.monotonic()) > 0:
                time.sleep(ahead)
            while not (pids := self.victims()):
                time.sleep(0.001)
            pid = self._random.choice(pids)
            try:
                os.kill(pid, self.SIGNAL)
            except ProcessLookupError:
                continue
            self.kills.append((time.monotonic(), pid))

    def victims(self):
        return self._server.worker_pids()

    def join(self):
        self._thread.join()
        return self.kills


def executions(journal):
    """Request id → how often its handler began."""
    found = {}
    for path in Path(journal).iterdir():
        for line in path.read_text().split():
            found[int(line)] = found.get(int(line), 0) + 1
    found.pop(-1, None)  # the load's first call, before it counts
    return found


class Result:
    """One line of a scenario: figures, and what was not as it must be."""

    def __init__(self, scenario, part, **figures):
        self.scenario, self.part, self.figures, self.faults, self.valid = scenario, part, figures, [], True

    def add(self, outcome):
        self.valid = self.valid and outcome.valid
        if outcome.errors:
            self.figures["examples"] = outcome.examples()

    def fault(self, text):
        self.faults.append(text)

    @property
    def verdict(self):
        return "FAILED" if self.faults else "ok" if self.valid else "INVALID"

    def line(self):
        shown = " ".join(f"{k}={v}" for k, v in self.figures.items() if k not in ("examples", "took_ms"))
        faults = "".join(f"\n    {f}" for f in self.faults)
        return f"{self.verdict:7} {self.scenario:10} {self.part:24} {shown}{faults}"

    def json(self):
        return json.dumps({"scenario": self.scenario, "part": self.part, "verdict": self.verdict, **self.figures,
                           "faults": self.faults})


@contextlib.contextmanager
def serving(server):
    """Stopped and checked at the end, as in the end-to-end tests; killed when something went wrong."""
    try:
        yield server
        server.settle()
        server.stop()
    finally:
        server.kill()


def wait_workers(server, n):
    """Until n workers are ready."""
    wait.until(lambda: len(server.workers()) == n, lambda: f"{n} workers: {server.status()}", 60)
