"""The phases of `failpoints`: what is asked for, and which points of src/ctl/state/failpoint.h this leads to."""

import contextlib
import os
import signal
import tempfile
import threading
import time

import rig
from scenarios import orders, upgrade
from support import wait

RATE = 100
MOST = 2.0  # seconds
LOOK = 0.01
AT_FIRST = {"SERVING", "STATUS", "TOLD", "DISPATCHER", "RUNS"}  # a controller comes there when it begins
ONCE = {"SERVING", "TOLD", "STAYS", "REVIVE", "DRAIN", "KILL"}  # or so: it comes there no second time
UPWARD, DOWNWARD = {"SPAWN", "SPAWNED", "READY"}, {"SIGNAL", "REMOVE", "RETIRE", "RETIRED"}
MOVES = AT_FIRST | UPWARD | DOWNWARD | {"NOTE", "PLACE", "ASK", "ANSWER", "GONE", "EXITED", "store", "stored"}


def what(point):
    """say-SPAWN → SPAWN; store stays."""
    return point.partition("-")[2] or point


class Armed:
    """The file that the server's controllers look at, and when it went: the controller has died."""

    def __init__(self):
        self._folder = tempfile.TemporaryDirectory(prefix="as-")
        self.path = os.path.join(self._folder.name, "failpoint")
        self.env = {"ANYSERVE_FAILPOINT": self.path}

    @contextlib.contextmanager
    def at(self, point, count=1):
        """While the block runs it is armed, until `died`."""
        self.died, self._over = None, False
        with open(self.path + ".new", "w", encoding="ascii") as f:
            f.write(f"{point}:{count}")
        os.rename(self.path + ".new", self.path)
        watch = threading.Thread(target=self._watch, daemon=True)
        watch.start()
        try:
            yield self
        finally:
            self._over = True
            watch.join()
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.path)

    def _watch(self):
        while not self._over:
            if not os.path.exists(self.path):
                self.died = time.monotonic()
                return
            time.sleep(0.001)


def until_done(order, text):
    end = time.monotonic() + wait.SECONDS
    while not order.is_done():
        assert time.monotonic() < end, f"{text}: {type(order).__name__} is not done: {order.server.status()}"
        time.sleep(LOOK)


class Phase:
    """One server, and all points that are to be met on it; play() once for each death."""

    options, retry, most = (), 0, MOST

    def __init__(self, armed):
        self.armed, self.calm = armed, []

    @contextlib.contextmanager
    def serving(self):
        with tempfile.TemporaryDirectory(prefix="as-") as folder, rig.serving(
                orders.Deployed(folder, "--log-level", "error", *self.options, env=self.armed.env)) as self.server:
            self.server.expect_error(r"worker_exit .*given up|upgrade_failed .*is being started")
            rig.wait_workers(self.server, 2)
            self.server.forget_fds()  # it may have been Ready without them
            self.server.note_fds()
            dispatcher, load = self.server.dispatcher, rig.Load(self.server.address, "grpc", "nap", RATE, retry=self.retry)
            try:
                yield
                self.outcome = load.end()
            finally:
                load.abandon()
            self.same = self.retry > 0 or self.server.dispatcher == dispatcher
            self.calmly(orders.Rest(self.server))
            self.server.note_fds()

    def calmly(self, order):
        begin = time.monotonic()
        until_done(order, "calm")
        self.calm.append(time.monotonic() - begin)

    def prepare(self, point, pick):
        """What has to be so before the order."""

    def order(self, point, pick):
        raise NotImplementedError

    def calmly_ordered(self, point, pick):
        self.prepare(point, pick)
        self.calmly(self.order(point, pick))

    def kill_beside(self, point, pick):
        """Leads to the points that only a death leads to."""
        if what(point) in AT_FIRST | {"STAYS"}:
            self.kill(self.server.controller)
        elif what(point) in ("EXITED", "PLACE", "GONE") or pick.random() < 0.3:
            self.kill(pick.choice(sorted(self.server.workers().values()) or [None]))

    def kill(self, pid):
        if pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def play(self, point, pick):
        """Seconds from the death until it was done; None: it did not come to the point."""
        self.prepare(point, pick)
        with self.armed.at(point, 1 if what(point) in ONCE else pick.choice((1, 1, 2))):
            order = self.order(point, pick)
            self.kill_beside(point, pick)
            until_done(order, point)
            end = time.monotonic()
        return self.armed.died and end - self.armed.died


class Scale(Phase):
    types = MOVES

    def prepare(self, point, pick):
        n = self.server.replicas
        if what(point) in UPWARD and n == orders.MOST:
            self.calmly(orders.Scale(self.server, 1))
        elif what(point) in DOWNWARD and n == 1:
            self.calmly(orders.Scale(self.server, orders.MOST))

    def order(self, point, pick):
        n = self.server.replicas
        if pick.random() < 0.2 and what(point) not in ("store", "stored", "ASK", "ANSWER"):
            return orders.Restart(self.server)
        wanted = [m for m in range(1, orders.MOST + 1) if m != n]
        if what(point) in UPWARD:
            wanted = [m for m in wanted if m > n]
        elif what(point) in DOWNWARD:
            wanted = [m for m in wanted if m < n]
        return orders.Scale(self.server, pick.choice(wanted))


class Update(Phase):
    types = MOVES

    def order(self, point, pick):
        if what(point) in ("ASK", "ANSWER"):
            return pick.choice((orders.Config, orders.Update))(self.server)
        return pick.choice((orders.Update, orders.Update, orders.Bad, orders.Bad, orders.Rollback))(self.server)


class Frail(Phase):
    types = {"DOWN", "UP", "STAYS", "REVIVE", "DELETE"}

    def prepare(self, point, pick):
        if what(point) != "DOWN":
            self.calmly(orders.Break(self.server))

    def order(self, point, pick):
        if what(point) == "DOWN":
            return orders.Break(self.server)
        return (orders.Remove if what(point) == "DELETE" else orders.Revive)(self.server)

    def calmly_ordered(self, point, pick):
        super().calmly_ordered(point, pick)
        self.rest()

    def play(self, point, pick):
        took = super().play(point, pick)
        self.rest()
        return took

    def rest(self):
        if self.server.has_frail:
            self.calmly(orders.Remove(self.server))


class Hang(Phase):
    types = {"KILL"}
    options = ("--start-timeout", "2s", "--update-failures", "1")
    most = MOST + 2  # a timeout begins anew with the next controller

    def order(self, point, pick):
        return orders.Hang(self.server)


class Upgrading(orders.Order):
    """`anyserve upgrade`: until the former dispatcher has ended."""

    def prepare(self):
        self.former = self.server.dispatcher

    def ask(self):
        done, _ = upgrade.upgrade(self.server)
        if "is being started" in done.stderr:
            raise ConnectionError(done.stderr)
        assert done.returncode == 0, done.stderr
        return {}

    def is_reached(self, state):
        return super().is_reached(state) and self.server.all_ready() and self.server.dispatcher != self.former


class Upgrade(Phase):
    types = AT_FIRST | {"DRAIN"}
    retry = 5

    def order(self, point, pick):
        return Upgrading(self.server)

    def kill_beside(self, point, pick):
        """A controller begins by itself, and a worker's death is another matter."""


class Start(Phase):
    """A server for each death: at its start, and another one for its end."""

    types = {"SERVING", "STATUS", "TOLD", "DISPATCHER", "SPAWN", "NOTE", "SPAWNED", "READY", "COMPLETE"}
    same, outcome = True, None

    @contextlib.contextmanager
    def serving(self):
        yield

    @contextlib.contextmanager
    def begun(self):
        with tempfile.TemporaryDirectory(prefix="as-") as folder:
            server = orders.Deployed(folder, "--log-level", "error", env=self.armed.env, wait_ready=False)
            try:
                yield server
            finally:
                server.kill()

    def calmly_ordered(self, point, pick):
        begin = time.monotonic()
        self.calm.append(self.until_ready() - begin)

    def until_ready(self):
        """When all was there."""
        with self.begun() as server:
            server.wait_ready()
            wait.until(server.all_ready, lambda: f"not ready: {server.status()}")
            end = time.monotonic()
            server.stop()
        return end

    def play(self, point, pick):
        with self.armed.at(point):
            end = self.until_ready()
        return self.armed.died and end - self.armed.died


class Stop(Start):
    types = {"DRAIN"}

    def calmly_ordered(self, point, pick):
        with self.begun() as server:
            server.wait_ready()
            begin = time.monotonic()
            server.stop()
            self.calm.append(time.monotonic() - begin)

    def play(self, point, pick):
        with self.begun() as server:
            server.wait_ready()
            with self.armed.at(point):
                server.process.send_signal(signal.SIGTERM)
                server.wait_exit(0)
                took = self.armed.died and time.monotonic() - self.armed.died
            server.ended()
        return took


class Fatal(Start):
    types = {"FATAL"}
    code = None  # without a death

    def run(self):
        """Until it ends; its exit code."""
        server = rig.AnyServe("--restart-backoff", "10ms", "--max-start-failures", "2", workers=2,
                              env={**self.armed.env, "CHAOS_BREAK": "worker"}, wait_ready=False)
        server.expect_error(".")
        try:
            code = server.process.wait(wait.SECONDS)
            end = time.monotonic()
            server.ended(code)
        finally:
            server.kill()
        return code, end

    def calmly_ordered(self, point, pick):
        begin = time.monotonic()
        self.calm.append(self.run()[1] - begin)

    def play(self, point, pick):
        self.code = self.code or self.run()[0]
        with self.armed.at(point):
            code, end = self.run()
        assert code == self.code != 0, f"exit code {code}, {self.code} without a death"
        return self.armed.died and max(end - self.armed.died, 0.0)


PHASES = {"scale": Scale, "update": Update, "frail": Frail, "hang": Hang, "upgrade": Upgrade, "start": Start, "stop": Stop,
          "fatal": Fatal}
