"""Servers under measurement: how to start each, which processes it has, how to stop it."""

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import client

ROOT = Path(__file__).resolve().parent.parent
BENCH = ROOT / "bench"


class Failed(Exception):
    pass


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def children(pid):
    try:
        return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def command_line(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def dispatcher_of_ours():
    """The pid of the dispatcher of a server that this program has started by the serve API."""
    (server,) = [pid for pid in children(os.getpid()) if "--end-with" in command_line(pid)]
    (found,) = [pid for pid in children(server) if not set(command_line(pid).split()) & {"controller", "anyserve.worker"}]
    return found


def cpu_ns(pid):
    """CPU time of all threads of a process."""
    total = 0
    for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        try:
            total += int(path.read_text().split()[0])
        except OSError:
            pass
    return total


def pin(pid, cores):
    for task in os.listdir(f"/proc/{pid}/task"):
        os.sched_setaffinity(int(task), cores)


class Server:
    """One server that listens on self.port.

    processes: pid → role, of all that serve. call: what is different in every call of this server (client.Call).
    """

    def __init__(self, build, call=None, is_sum=False):
        self.build = Path(build)
        self.call, self.is_sum = call or {}, is_sum
        self.processes = {}
        self.process = None
        self.log = tempfile.TemporaryFile(mode="w+")

    def launch(self, command, **kwargs):
        self.process = subprocess.Popen([str(c) for c in command], start_new_session=True,
                                        stderr=self.log, **kwargs)

    def read_port(self):
        """The port that a server prints as "port N" when it is bound."""
        line = self.process.stdout.readline().split()
        if len(line) != 2:
            raise Failed(f"{self.name} did not start: {self.log_text()}")
        self.port = int(line[1])
        self.processes = {self.process.pid: self.role}

    def log_text(self):
        self.log.seek(0)
        return self.log.read()[-2000:]

    def wait_ready(self, seconds=60):
        """Until one whole call is answered rightly."""
        call = client.Call(**self.call)
        probe = [sys.executable, client.__file__, str(self.port), call.model, ",".join(call.inputs), str(call.payload),
                 "sum" if self.is_sum else "last"]
        end = time.monotonic() + seconds
        while True:
            done = subprocess.run(probe, capture_output=True, text=True)
            if done.returncode == 0:
                return
            if self.process.poll() is not None or time.monotonic() > end or "not the right one" in done.stderr:
                raise Failed(f"{self.name} does not answer: {done.stderr[-500:]} {self.log_text()}")
            time.sleep(0.05)

    def stop(self):
        """SIGTERM, and an exit code: callgrind writes its file on the way out."""
        if not self.process:
            return 0
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            raise Failed(f"{self.name} did not end on SIGTERM: {self.log_text()}") from None

    def find_processes(self):
        """{pid: role} of the processes that serve now."""
        return {self.process.pid: self.role} if self.process.poll() is None else {}

    def check_unchanged(self):
        """A process that died and came back is neither pinned nor watched."""
        if self.find_processes() != self.processes:
            raise Failed(f"{self.name}: processes {self.processes} became {self.find_processes()}")

    def counters(self):
        return {}


class Echo(Server):
    """A program of this folder: B0, its twin on libuv, gRPC C++."""

    role = "server"

    def __init__(self, build, program="b0_echo", name=None):
        super().__init__(build)
        self.program, self.name = program, name or program

    def start(self, wrap=()):
        path = self.build / "bench" / self.program
        if not path.exists():
            raise Failed(f"{path} is not there; `make bench` builds it (tools/setup.sh bench installs what it needs)")
        self.launch([*wrap, path, "0"], stdout=subprocess.PIPE, text=True)
        self.read_port()
        self.wait_ready()


class Grpcio(Server):
    role = "server"

    def __init__(self, build, mode):
        super().__init__(build)
        self.mode, self.name = mode, f"grpcio {mode}"

    def start(self):
        self.launch([sys.executable, BENCH / "baselines/grpcio_server.py", self.mode, self.stubs()],
                    stdout=subprocess.PIPE, text=True)
        self.read_port()
        self.wait_ready()

    def stubs(self):
        folder = self.build / "bench" / "stubs"
        source = ROOT / "proto" / "open_inference.proto"
        made = folder / "open_inference_pb2_grpc.py"
        if not made.exists() or made.stat().st_mtime < source.stat().st_mtime:
            folder.mkdir(exist_ok=True)
            subprocess.run([sys.executable, "-m", "grpc_tools.protoc", f"-I{source.parent}",
                            f"--python_out={folder}", f"--grpc_python_out={folder}", source.name],
                           check=True)
        return folder


class AnyServe(Server):
    def __init__(self, build, model=BENCH / "models/echo_model.py", options=(), name="anyserve", call=None, is_sum=False, unary=True):
        super().__init__(build, call, is_sum)
        self.name, self.model, self.options, self.unary = name, model, options, unary

    def start(self, wrap=()):
        self.port, self.status_port = free_port(), free_port()
        self.runtime = tempfile.TemporaryDirectory(prefix="anyserve-bench-")
        env = dict(os.environ, PYTHONPATH=str(self.build.resolve() / "python"))
        if wrap:
            env["BENCH_WRAP"] = " ".join(map(str, wrap))
            env["LD_PRELOAD"] = str(self.build.resolve() / "bench/wrap_dispatcher.so")
        self.launch([self.build / "src/app/anyserve", "run", *([self.model] if self.model else []), "--port", self.port,
                     "--status-port", self.status_port, "--runtime-dir", self.runtime.name,
                     "--python", sys.executable, *self.options], stdout=self.log, env=env)
        self.join()
        if self.unary:
            self.wait_ready()
        else:
            self.wait_metrics()
        self.wait_workers()
        self.processes = self.find_processes()
        if set(self.processes.values()) != {"dispatcher", "controller", "worker"}:
            raise Failed(f"processes of {self.process.pid} not recognised: {self.processes}")

    def join(self):
        """Starts what the supervisor does not."""

    def wait_metrics(self, seconds=60):
        """For a model that the load client does not know: until the status page is there."""
        end = time.monotonic() + seconds
        while True:
            try:
                return self.counters()
            except OSError:
                if self.process.poll() is not None or time.monotonic() > end:
                    raise Failed(f"{self.name} does not start: {self.log_text()}") from None
                time.sleep(0.05)

    def wait_workers(self, seconds=60):
        """Until every worker process takes requests, and there are as many as asked for (of one deployment)."""
        least = int(dict(zip(self.options, self.options[1:])).get("--workers", 1))
        end = time.monotonic() + seconds
        while True:
            ready = self.counters().get("anyserve_replicas_ready", 0)
            started = list(self.find_processes().values()).count("worker")
            if least <= started == ready:
                return
            if time.monotonic() > end:
                raise Failed(f"{self.name}: {started} workers, {ready:.0f} ready, not {least}: {self.log_text()}")
            time.sleep(0.05)

    def find_processes(self):
        """{pid: role} of the processes that the supervisor has now."""
        lines = {pid: command_line(pid) for pid in children(self.process.pid)}
        return {pid: "worker" if "anyserve.worker" in line else "controller" if " controller " in line else "dispatcher"
                for pid, line in lines.items()}

    def stop(self):
        code = super().stop()
        self.runtime.cleanup()
        return code

    def counters_of(self, deployment):
        """Those of one deployment."""
        return self.counters(f'deployment="{deployment}"')

    def counters(self, label=""):
        """Sums of the exported counters over loops and models: {name and kind: value}; of lines with the label."""
        url = f"http://127.0.0.1:{self.status_port}/metrics"
        with urllib.request.urlopen(url, timeout=10) as answer:
            text = answer.read().decode()
        sums = {}
        for line in text.splitlines():
            if line and not line.startswith("#") and label in line:
                name, value = line.rsplit(" ", 1)
                kind = re.search(r'kind="(\w+)"', name)
                name = name.split("{")[0] + (f" {kind[1]}" if kind else "")
                sums[name] = sums.get(name, 0.0) + float(value)
        return sums


class AnyServeC(AnyServe):
    """The same server with the same model in C (echo_worker.c), which joins it."""

    def __init__(self, build):
        super().__init__(build, model=None, name="anyserve C")
        self.worker = None

    def join(self):
        self.worker = subprocess.Popen([self.build / "bench/echo_worker", self.runtime.name, str(self.port)])

    def find_processes(self):
        return {**super().find_processes(), self.worker.pid: "worker"}

    def stop(self):
        self.worker.terminate()
        if self.worker.wait(30):
            raise Failed(f"{self.name}: its worker ended with {self.worker.returncode}")
        return super().stop()
