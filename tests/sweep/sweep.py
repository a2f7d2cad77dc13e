#!/usr/bin/env python3
"""The failure sweep: the n-th allocation or system call of one process of a real server fails, for every n.

    tests/sweep/sweep.py --build build/release [--quick SECONDS] [--role R,R] [--phase P,P] [--kind K,K] [--at N]
                         [--jobs N] [--tls] [--report FILE]

A run is a server of its own (supervisor, dispatcher, controller, a C worker in Python's place): start, thirteen requests, SIGTERM.
--tls: it has a TLS port besides, and two more requests go there, over a new connection.
In one phase of it call number n of one process fails; `deploy` is a deployment file that replaces the worker. Whatever comes of it must be one of the outcomes of
docs/TESTING.md; what is left behind must be nothing; and the next request must be answered right.
"""

import argparse
import collections
import concurrent.futures
import errno
import gzip
import http.client
import itertools
import json
import mmap
import os
import queue
import random
import re
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/e2e"))

from security.certificates import Authority  # noqa: E402
from support.process import procs  # noqa: E402
from support.protocol import oip  # noqa: E402
from support.protocol.h2client import H2, messages_of, prefixed  # noqa: E402
from support.protocol.http import Unix  # noqa: E402

ROLES = ["dispatcher", "controller", "run", "worker"]  # as in the command line; "run" is the supervisor
NAMES = {"dispatcher": "dispatcher", "controller": "controller", "run": "supervisor", "worker": "worker"}
PHASES = ["start", "serve", "deploy", "drain"]
DEPLOYS = ["controller", "run", "dispatcher"]  # who has to do with it; a new worker is the phase "start" again
KINDS = ["alloc", "call", "interrupt", "short"]
BOUND = 10  # seconds: what takes longer hangs
TLS_PORTS = 1000  # from a run's port to its port of TLS
PART = 200  # calls of one part that a quick sweep chooses from
# Exit codes of src/conf/option/exit_code.h that a failed start may end in, and what they say.
CODES = {1: "failed", 66: "not found", 69: "interpreter", 71: "system", 75: "busy", 78: "configuration"}
STATUSES = {8: "RESOURCE_EXHAUSTED", 13: "INTERNAL", 14: "UNAVAILABLE"}
FRAMES = 24
LAYOUT = struct.Struct(f"<8I16s32s{FRAMES}Q" + "32s" * FRAMES)
WORDS = {"pid": 0, "kind": 4, "at": 8, "seen": 12, "fired": 16, "error": 20, "n_frames": 24, "starts": 28}


class Wrong(Exception):
    """An outcome that no policy allows."""


class Page:
    """tests/sweep/page.h"""

    def __init__(self, folder, role):
        self.path = os.path.join(folder, "page")
        with open(self.path, "wb") as f:
            f.truncate(LAYOUT.size)
        self._file = open(self.path, "r+b")
        self._map = mmap.mmap(self._file.fileno(), LAYOUT.size)
        self._map[32:32 + len(role)] = role.encode()

    def get(self, word):
        return struct.unpack_from("<I", self._map, WORDS[word])[0]

    def set(self, word, value):
        struct.pack_into("<I", self._map, WORDS[word], value)

    def arm(self, kind, at):
        self.set("kind", 0)
        self.set("at", at)
        self.set("seen", 0)
        self.set("kind", 1 + KINDS.index(kind))

    def disarm(self):
        self.set("kind", 0)
        return self.get("seen")

    def note(self):
        values = LAYOUT.unpack(self._map[:])
        text = [v.split(b"\0")[0].decode() for v in (values[9], *values[10 + FRAMES:])]
        frames = list(zip(text[1:], values[10:10 + FRAMES]))[:self.get("n_frames")]
        return text[0], self.get("error"), frames

    def close(self):
        self._map.close()
        self._file.close()


class Symbols:
    """Names of functions by offset, for files that are not stripped."""

    def __init__(self, files):
        self._files = {f.name: f for f in files}
        self._tables = {}
        self._lock = threading.Lock()

    def name(self, module, offset):
        with self._lock:
            if module not in self._tables:
                self._tables[module] = self._load(self._files.get(module))
        table = self._tables[module]
        at = max((a for a in table if a <= offset), default=None)
        return table[at] if at is not None else module

    @staticmethod
    def _load(path):
        if path is None:
            return {}
        out = subprocess.run(["nm", "-C", path], capture_output=True, text=True, check=False).stdout
        rows = (line.split() for line in out.splitlines())
        return {int(r[0], 16): r[2] for r in rows if len(r) == 3 and r[1] in "tTwW"}


class Client:
    """A connection that is made anew when it is lost."""

    BIG = bytes(range(256)) * 1024  # in pages of its own (base/memory/pages)
    EVEN = bytes(8192)
    MANY = list(range(10_000))  # as JSON, and as the bytes of an answer, more than fits into a request's own memory
    PARTS = 3  # of worker.c

    def __init__(self, port, tls=None):
        """tls: the other port and how to verify it."""
        self.port = port
        self.tls = tls
        self.h2 = None
        self.h1 = None

    def close(self):
        if self.h2:
            self.h2.sock.close()
        if self.h1:
            self.h1.close()
        self.h2 = self.h1 = None

    def connect(self):
        if self.h2 is None:
            try:
                self.h2 = H2("127.0.0.1", self.port)
                self.h2.sock.settimeout(BOUND)
            except OSError as e:
                raise Wrong(f"no connection: {e}") from None

    def ask(self, make):
        """The reply, or None when the connection ended before it came. A hang is Wrong."""
        self.connect()
        try:
            reply = make(self.h2)
        except (TimeoutError, socket.timeout):
            raise Wrong("no answer: it hangs") from None
        except OSError:
            reply = None
        if reply is None or (not reply.ended and reply.reset is None):
            self.close()
            return None
        return reply

    @staticmethod
    def infer(data, id=""):
        import numpy as np
        q = oip.infer_request("echo", {"x": np.frombuffer(data, "u1")}, id=id)
        return prefixed(q.SerializeToString())

    @staticmethod
    def rpc(reply, check):
        """What became of a gRPC call."""
        if reply is None:
            return "connection closed"
        if reply.reset is not None:
            return "stream reset"
        if reply.grpc_status is None:
            raise Wrong(f"no grpc-status: {reply}")
        if reply.grpc_status in STATUSES:
            return STATUSES[reply.grpc_status]
        check(reply)
        return "right"

    def unary(self, data):
        def check(reply):
            if reply.grpc_status != 0:
                raise Wrong(f"status {reply.grpc_status} {reply.grpc_message}")
            answer = oip.messages()["ModelInferResponse"].FromString(reply.data[5:])
            if [bytes(r) for r in answer.raw_output_contents] != [data]:
                raise Wrong("the answer is not what was sent")
        body = self.infer(data)
        return self.rpc(self.ask(lambda h: h.grpc(body)), check)

    def zipped(self):
        """Compressed both ways."""
        def check(reply):
            if reply.grpc_status != 0:
                raise Wrong(f"status {reply.grpc_status} {reply.grpc_message}")
            data = gzip.decompress(reply.data[5:]) if reply.data[0] else reply.data[5:]
            answer = oip.messages()["ModelInferResponse"].FromString(data)
            if [bytes(r) for r in answer.raw_output_contents] != [self.EVEN]:
                raise Wrong("the answer is not what was sent")
        body = prefixed(gzip.compress(self.infer(self.EVEN)[5:]), 1)
        extra = [("grpc-encoding", "gzip"), ("grpc-accept-encoding", "gzip")]
        return self.rpc(self.ask(lambda h: h.grpc(body, extra=extra)), check)

    def service(self, service, method, body, is_right):
        """A call of one of the other services; streaming ones get one message and the end."""
        def check(reply):
            if reply.grpc_status != 0:
                raise Wrong(f"{method}: status {reply.grpc_status} {reply.grpc_message}")
            if not is_right(reply.data[5:]):
                if method == "ServerReflectionInfo":
                    raise Wrong(f"{method}: {reply.data}")
                reply.not_ready = True
        reply = self.ask(lambda h: h.grpc(prefixed(body), method, service=service))
        what = self.rpc(reply, check)
        return "not ready" if getattr(reply, "not_ready", False) else what

    def watch(self):
        """The first word of a Watch; then the client gives it up."""
        def make(h):
            stream = h.open_grpc("Watch", service="grpc.health.v1.Health")
            h.send(stream, prefixed(b"\x0a\x04echo"), end=True)
            reply = h.replies[stream]
            while not reply.data and not reply.ended and reply.reset is None:
                if not h.read():
                    return reply
            if not reply.ended and reply.reset is None:
                h.conn.reset_stream(stream, 8)  # CANCEL
                h.flush()
                reply.told = True
                reply.ended = True
            return reply
        reply = self.ask(make)
        if getattr(reply, "told", False):
            return "right" if reply.data == prefixed(b"\x08\x01") else "not ready"
        return self.rpc(reply, lambda r: None) if reply else "connection closed"

    def error(self):
        def check(reply):
            if (reply.grpc_status, reply.grpc_message) != (9, "not today"):
                raise Wrong(f"not the worker's error: {reply.grpc_status} {reply.grpc_message}")
        body = self.infer(b"abc", "fail")
        return self.rpc(self.ask(lambda h: h.grpc(body)), check)

    def ready(self):
        def check(reply):
            answer = oip.messages()["ServerReadyResponse"].FromString(reply.data[5:])
            if reply.grpc_status != 0 or not answer.ready:
                if reply.grpc_status != 0:
                    raise Wrong(f"status {reply.grpc_status}")
                reply.not_ready = True
        reply = self.ask(lambda h: h.grpc(prefixed(b""), "ServerReady"))
        what = self.rpc(reply, check)
        return "not ready" if getattr(reply, "not_ready", False) else what

    def health(self):
        reply = self.ask(lambda h: h.request("GET", "/v2/health/ready"))
        if reply is None:
            return "connection closed"
        if reply.reset is not None:
            return "stream reset"
        status = reply.headers.get(":status")
        if status == "503":
            return "not ready"
        if status != "200" or json.loads(reply.data) != {"ready": True, "live": True}:
            raise Wrong(f"health: {status} {reply.data!r}")
        return "right"

    def stream(self):
        """One request on a ModelStreamInfer, three responses."""
        def check(reply):
            if reply.grpc_status != 0:
                raise Wrong(f"stream: status {reply.grpc_status} {reply.grpc_message}")
            found = [oip.messages()["ModelStreamInferResponse"].FromString(m) for _, m in messages_of(reply.data)]
            if found and found[-1].error_message:
                reply.told = self.told(found.pop().error_message)
            elif len(found) != self.PARTS:
                raise Wrong(f"stream: {len(found)} responses")
            for m in found:
                if m.error_message or [bytes(r) for r in m.infer_response.raw_output_contents] != [raw]:
                    raise Wrong(f"stream: {m}")
        import numpy as np
        q = oip.infer_request("parts", {"x": np.arange(3, dtype=np.int32)})
        raw = q.raw_input_contents[0]
        reply = self.ask(lambda h: h.grpc(prefixed(q.SerializeToString()), "ModelStreamInfer"))
        what = self.rpc(reply, check)
        return getattr(reply, "told", what)

    @staticmethod
    def told(text):
        """An error that has no status: as a message of a stream, or an event."""
        if not re.search(r"no memory|may have been executed|no worker of model|worker was lost", text):
            raise Wrong(f"told of {text}")
        return "told in the stream"

    def http1(self, path, body, check):
        """A request over HTTP/1.1; check(bytes of the answer) gives the outcome."""
        if self.h1 is None:
            self.h1 = http.client.HTTPConnection("127.0.0.1", self.port, timeout=BOUND)
        what = self.post(self.h1, path, body, check)
        if what == "connection closed":
            self.h1.close()
            self.h1 = None
        return what

    @staticmethod
    def post(connection, path, body, check):
        try:
            connection.request("POST", path, json.dumps(body))
            reply = connection.getresponse()
            data = reply.read()
        except (TimeoutError, socket.timeout):
            raise Wrong("no answer: it hangs") from None
        except (OSError, http.client.HTTPException):
            return "connection closed"
        if reply.status == 200:
            return check(data)
        if reply.status not in (500, 503) or list(json.loads(data)) != ["error"]:
            raise Wrong(f"HTTP {reply.status} {data!r}")
        return f"HTTP {reply.status}"

    ECHO = "/v2/models/echo/infer"

    @staticmethod
    def echo(numbers):
        """A body, and what checks the answer to it."""
        def check(data):
            (output,) = json.loads(data)["outputs"]
            if (output["datatype"], output["data"]) != ("INT32", numbers):
                raise Wrong(f"JSON: {data[:200]!r}")
            return "right"
        return {"inputs": [{"name": "x", "datatype": "INT32", "shape": [len(numbers)], "data": numbers}]}, check

    def rest(self):
        return self.http1(self.ECHO, *self.echo(self.MANY))

    def by_tls(self):
        """A small request and a large one, over a connection of their own."""
        port, context = self.tls
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=BOUND, context=context)
        try:
            return [self.post(connection, self.ECHO, *self.echo(numbers)) for numbers in ([1], self.MANY)]
        finally:
            connection.close()

    def events(self):
        def check(data):
            if not data.endswith(b"\n\n"):
                raise Wrong(f"events: {data!r}")
            found = [json.loads(e.removeprefix("data: ")) for e in data.decode().split("\n\n")[:-1]]
            what = self.told(found.pop()["error"]) if found and list(found[-1]) == ["error"] else "right"
            if any(e["x"] != [1, 2, 3] for e in found) or (what == "right" and len(found) != self.PARTS):
                raise Wrong(f"events: {data!r}")
            return what
        return self.http1("/v2/models/parts/generate_stream", {"x": [1, 2, 3]}, check)

    def again(self):
        return [self.unary(b"again"), *(self.by_tls() if self.tls else [])]

    def all(self):
        health = "grpc.health.v1.Health"
        return [self.unary(b"abcd"), self.unary(self.BIG), self.error(), self.ready(), self.health(), self.zipped(),
                self.service(health, "Check", b"\x0a\x04echo", lambda d: d == b"\x08\x01"),
                self.service(health, "List", b"", lambda d: b"echo:1\x12\x02\x08\x01" in d),
                self.watch(),
                self.service("grpc.reflection.v1.ServerReflection", "ServerReflectionInfo", b"\x3a\x00",
                             lambda d: b"inference.GRPCInferenceService" in d),
                self.stream(), self.rest(), self.events(), *(self.by_tls() if self.tls else [])]


class Run:
    """One server, one fault."""

    def __init__(self, sweep, role, phase, kind, at, port):
        self.sweep, self.role, self.phase, self.kind, self.at, self.port = sweep, role, phase, kind, at, port
        self.folder = tempfile.mkdtemp(prefix="as-sweep-", dir="/tmp")
        self.page = Page(self.folder, role)
        self.outcomes = []
        self.seen = 0
        self.lines = []
        self.news = threading.Condition()
        self.mark = f"ANYSERVE_SWEEP={os.path.basename(self.folder)}"
        self.main_port = port + TLS_PORTS if sweep.certificate else port
        self.client = Client(port, (self.main_port, sweep.tls_context) if sweep.certificate else None)

    # --- the process ---

    def start(self):
        if self.phase == "start":
            self.page.arm(self.kind, self.at)
        name, _, value = self.mark.partition("=")
        env = {**os.environ, "LD_PRELOAD": str(self.sweep.shim), "SWEEP_PAGE": self.page.path, name: value}
        # the shim comes before the sanitizer's own library; a process that gives up tears nothing down
        env["ASAN_OPTIONS"] = env.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0:handle_abort=0"
        command = [self.sweep.binary, "run", "sweep.py", "--port", self.main_port, "--status-port", "off", "--runtime-dir",
                   os.path.join(self.folder, "run"), "--python", self.sweep.worker, "--restart-backoff", "1ms",
                   "--restart-backoff-max", "50ms", "--goaway-grace", "5ms", "--stop-timeout", "3s",
                   "--handshake-timeout", "2s", "--start-timeout", "3s", "--drain-timeout", "3s", "--update-min-ready", "10ms",
                   "--state-generations", "4"]
        if self.sweep.certificate:
            command += [*self.sweep.certificate.options, "--listen", f"127.0.0.1:{self.port}"]
        self.process = subprocess.Popen([str(c) for c in command], stdin=subprocess.DEVNULL, env=env,
                                        cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        start_new_session=True)
        self.began = procs.began(self.process.pid)
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        with self.process.stdout as pipe:
            for line in pipe:
                with self.news:
                    self.lines.append(line.decode(errors="replace").rstrip())
                    self.news.notify_all()
        with self.news:
            self.lines.append(None)  # the end
            self.news.notify_all()

    def text(self):
        return "\n".join(line for line in self.lines if line is not None)

    def wait_line(self, word):
        """Until a line begins with it; False: the server ended."""
        def is_there():
            # what was said to a log that refused it is said to nobody
            lost = self.page.get("fired") and self.page.note()[:2] == ("write", errno.EPIPE)
            return lost or any(x is None or x.startswith(word) for x in self.lines)
        with self.news:
            until = time.monotonic() + BOUND
            while not is_there() and time.monotonic() < until:
                self.news.wait(0.2)
            if not is_there():
                raise Wrong(f"no '{word}' within {BOUND} s: it hangs")
            return None not in self.lines or any(x is not None and x.startswith(word) for x in self.lines)

    def wait_exit(self):
        try:
            code = self.process.wait(BOUND)
        except subprocess.TimeoutExpired:
            raise Wrong("the server does not end") from None
        with self.news:
            self.news.wait_for(lambda: self.lines and self.lines[-1] is None, 2)
        return code

    def children(self):
        pid = self.process.pid
        return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    # --- the parts of a run ---

    def settle(self):
        """After the fault: the next request is answered right, by whoever is there then. False: the server has ended."""
        until = time.monotonic() + BOUND
        while True:
            if self.process.poll() is not None:
                return False
            what = None
            try:
                what = next((w for w in self.client.again() if w != "right"), "right")
            except Wrong as e:
                if time.monotonic() > until or "hangs" in str(e):
                    raise
            if what == "right":
                return True
            if time.monotonic() > until:
                raise Wrong(f"no right answer within {BOUND} s of the fault: {what}")
            time.sleep(0.005)

    def check_all_right(self):
        what = self.client.all()
        if set(what) != {"right"}:
            raise Wrong(f"after the fault: {what}")

    def descriptors(self):
        """How many each process has while nobody is connected."""
        found = {}
        for pid in self.children():
            line = procs.command(pid)
            role = "worker" if "anyserve.worker" in line else "controller" if " controller " in line else "dispatcher"
            found[role] = len(procs.fds(pid))
        # the file of what a process prints is open from its first line on; a few at most (ctl/output/journal)
        found["run"] = sum(not name.endswith(".log") for name in procs.fds(self.process.pid).values())
        return found

    def check_descriptors(self):
        self.client.close()
        if (self.kind == "call" and self.phase == "start") or self.phase == "deploy":
            return  # a restarted process need not have the same ones: a status socket may be missing; or it has a store
        # of a start that went on without something, as the dispatcher that answers until the server is ready, none is left
        fewer = 2 if self.phase == "start" and NAMES[self.role] == "supervisor" else 0
        until = time.monotonic() + 3
        while self.sweep.rest and not same_descriptors(now := self.descriptors(), self.sweep.rest, fewer):
            if time.monotonic() > until:
                raise Wrong(f"descriptors: {now}, at rest {self.sweep.rest}")
            time.sleep(0.005)

    def check_gone(self):
        until = time.monotonic() + 3
        while left := procs.family(self.process.pid, self.began, self.mark):
            if time.monotonic() > until:
                raise Wrong(f"outlive the server: {[procs.command(p) for p in left]}")
            time.sleep(0.005)
        files = [os.path.join(d, f) for d, _, names in os.walk(os.path.join(self.folder, "run")) for f in names]
        if self.refused_call() == "flock":
            files = [f for f in files if not f.endswith("/lock")]  # another server's, as far as it knows
        if files:
            raise Wrong(f"files outlive the server: {files}")

    def check_deaths(self):
        """A process of the server that ended by a signal nobody sent, or without a word."""
        text = self.text()
        if m := re.search(r"SIG(SEGV|BUS|ILL|FPE)|: bug: |Assertion|Sanitizer|runtime error:", text):
            raise Wrong(f"{m[0]}")
        if re.search(r"SIGABRT", text):
            # the one signal: libuv aborts when it is refused a descriptor or a watch; we say so first
            if not self.by_libuv() or "anyserve: aborted: " not in text:
                raise Wrong("SIGABRT")
            self.outcomes.append("aborted by libuv, and came back")
        for m in re.finditer(r"(dispatcher|controller)_exit .*?reason=\"exit code (\d+)", text):
            name, code = m[1], int(m[2])
            if code not in (1, 71):
                raise Wrong(f"the {name} ended with exit code {code}")
            if not re.search(r"^(\[\w+\] )?anyserve: .*(out of memory|refused|gave up)|level=error event=", text, re.M):
                raise Wrong(f"the {name} ended without a word")
            self.outcomes.append(f"{name} ended with {code}, and came back")
        if m := re.search(r"worker_exit .*?reason=\"?exit code ([1-9]\d*)", text):
            code = int(m[1])
            if code not in (71, 77):
                raise Wrong(f"the worker ended with exit code {code}")
            self.outcomes.append(f"worker ended with {code}, and came back")

    def refused_call(self):
        return self.page.note()[0] if self.page.get("fired") else None

    def by_libuv(self):
        """Was the failed call libuv's own?"""
        return self.kind == "call" and self.page.get("fired") and any(
            module.startswith("libuv") for module, _ in self.page.note()[2][:2])

    def refused(self, code):
        """A start that failed: does it say so?"""
        if self.phase != "start":
            raise Wrong(f"the start failed without a fault: {code}\n{self.text()}")
        if code == -signal.SIGABRT and self.by_libuv() and "anyserve: aborted: " in self.text():
            self.outcomes.append("aborted by libuv")
            return
        if code not in CODES:
            raise Wrong(f"exit code {code}")
        if not re.search(r"^(\[\w+\] )?anyserve: |level=error |cannot start", self.text(), re.M):
            raise Wrong(f"exit code {code} without a word")
        self.outcomes.append(f"start refused with {code}")

    def go(self):
        try:
            self.parts()
            self.check_deaths()
        except Wrong as e:
            self.outcomes.append(f"WRONG: {e}")
        finally:
            self.end()
        return self

    def parts(self):
        self.start()
        if not self.wait_line("Ready:"):
            self.refused(self.wait_exit())
            self.check_gone()
            return
        if self.phase == "start":
            self.seen = self.page.disarm()
            if not self.settle():
                raise Wrong(f"the server is gone: exit code {self.process.returncode}")
            self.check_all_right()
        elif self.phase == "deploy":
            self.page.arm(self.kind, self.at)
            what = self.deploy("two")
            if what == "right":
                self.wait_deployed("two", BOUND)
            self.seen = self.page.disarm()
            if not self.settle():
                self.ended_itself()
                return
            if what != "right":
                self.outcomes.append(what)
            self.deploy_again()
            self.check_all_right()
        elif self.phase == "serve":
            self.page.arm(self.kind, self.at)
            what = self.client.all()
            self.client.close()
            self.seen = self.page.disarm()
            self.outcomes += [w for w in what if w != "right"]
            if not self.settle():
                self.ended_itself()
                return
            self.check_all_right()
        else:
            self.check_all_right()
        self.check_descriptors()
        if self.phase == "drain":
            self.client.unary(b"stay")
            self.page.arm(self.kind, self.at)
        self.process.send_signal(signal.SIGTERM)
        if self.phase == "drain":
            self.hear_goaway()
        code = self.wait_exit()
        if self.phase == "drain":
            self.seen = self.page.disarm()
        if code != 0:
            if code == -signal.SIGABRT and self.role == "run" and self.by_libuv() and self.phase == "drain":
                self.outcomes.append("aborted by libuv")
            elif self.phase != "drain" or code not in CODES:
                raise Wrong(f"drained with exit code {code}")
            else:
                self.outcomes.append(f"drain ended with {code}")
        self.check_gone()

    # --- a deployment file ---

    def control(self, method, body=None):
        """(status, answer) of the control API; None: the connection ended, or there is no controller now."""
        c = Unix(os.path.join(self.folder, "run", str(self.main_port), "control.sock"))
        try:
            c.request(method, "/api/serve/applications/", body)
            c.sock.settimeout(BOUND)
            reply = c.getresponse()
            return reply.status, json.loads(reply.read())
        except (TimeoutError, socket.timeout):
            raise Wrong("the control API does not answer: it hangs") from None
        except (OSError, http.client.HTTPException, json.JSONDecodeError):
            return None
        finally:
            c.close()

    def deploy(self, version):
        app = {"import_path": "sweep.py", "code": "live", "deployments": [{"name": "app", "version": version}]}
        answer = self.control("PUT", json.dumps({"applications": [app]}))
        if answer is None:
            return "deploy: connection closed"
        status, text = answer
        if status == 200:
            if [c["step"] for c in text["changes"]] not in (["changed"], ["unchanged"]):
                raise Wrong(f"deploy: {text}")
            return "right"
        # 401: who cannot be told to be of our user has to show a token
        if status not in (400, 401, 409, 500, 503) or not text.get("error"):
            raise Wrong(f"deploy: HTTP {status} {text}")
        return f"deploy: HTTP {status}"

    def wait_deployed(self, version, seconds):
        """Until it serves, or was taken back; False: neither."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and self.process.poll() is None:
            status, answer = self.control("GET") or (None, None)
            d = answer["applications"]["default"]["deployments"]["app"] if status == 200 else None
            if d and d["status"] in ("HEALTHY", "DEPLOY_FAILED") and [r["state"] for r in d["replicas"]] == ["RUNNING"]:
                return d["status"]
            time.sleep(0.005)
        return None

    def deploy_again(self):
        """Without a fault it is served, whatever was before."""
        until = time.monotonic() + BOUND
        while (what := self.deploy("three")) != "right":
            if time.monotonic() > until:
                raise Wrong(f"no deploy within {BOUND} s of the fault: {what}")
            time.sleep(0.005)
        if (status := self.wait_deployed("three", BOUND)) != "HEALTHY":
            raise Wrong(f"the next deploy is not served: {status}, {self.control('GET')}")

    def ended_itself(self):
        """The supervisor's own fault while serving: all ends, in order."""
        code = self.wait_exit()
        if code == -signal.SIGABRT and self.role == "run" and self.by_libuv():
            self.outcomes.append("aborted by libuv")
        elif self.role != "run" or code not in CODES:
            raise Wrong(f"the server ended while serving: exit code {code}")
        else:
            self.outcomes.append(f"server ended with {code}")
        self.check_gone()

    def hear_goaway(self):
        """An open connection is told of the end and closes."""
        h2 = self.client.h2
        try:
            while h2 and not h2.goaways and h2.read():
                pass
        except (TimeoutError, socket.timeout):
            raise Wrong("no GOAWAY: the drain hangs") from None
        except OSError:
            pass
        self.client.close()

    def end(self):
        self.client.close()
        for pid in procs.family(self.process.pid, self.began, self.mark) if hasattr(self, "process") else []:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()
        self.fired = bool(self.page.get("fired"))
        self.note = self.page.note() if self.fired else None
        self.page.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def wrong(self):
        return next((o for o in self.outcomes if o.startswith("WRONG")), None)

    def where(self):
        if not self.note:
            return "(did not fire)"
        call, error, frames = self.note
        names = [self.sweep.symbols.name(*f) for f in frames]
        return f"{call} → {os.strerror(error) if error else 'one byte'}: " + " < ".join(names[:14])


def same_descriptors(now, rest, fewer):
    """As many in each process as at rest; the supervisor may have up to `fewer` less."""
    return now | {"run": 0} == rest | {"run": 0} and 0 <= rest["run"] - now["run"] <= fewer


class Sweep:
    def __init__(self, options):
        build = Path(options.build).resolve()
        self.options = options
        self.binary = build / "src/app/anyserve"
        self.worker = build / "tests/sweep/sweep_worker"
        self.shim = build / ("tests/sweep/fault_calls.so" if options.calls_only else "tests/sweep/fault.so")
        self.symbols = Symbols([self.binary, self.worker])
        self.rest = None
        self.certificate = None
        if options.tls:
            self._certificates = tempfile.TemporaryDirectory(prefix="as-sweep-tls-", dir="/tmp")
            authority = Authority(Path(self._certificates.name))
            self.certificate, self.tls_context = authority.server(), ssl.create_default_context(cafile=authority.cert)
        self.results = collections.defaultdict(collections.Counter)
        self.wrongs = []
        self.rows = []
        self.ports = queue.SimpleQueue()
        for port in range(options.ports, options.ports + 4 * options.jobs):
            self.ports.put(port)

    def run(self, role, phase, kind, at):
        port = self.ports.get()
        run = Run(self, role, phase, kind, at, port)
        run.go()
        self.ports.put(port)
        return run

    def count(self, role, phase, kind):
        """How many there are, when none fails: the most of three runs (threads make it vary)."""
        most = 0
        for _ in range(1 if self.options.quick else 3):
            run = self.run(role, phase, kind, 0)
            if run.wrong or run.outcomes:
                raise SystemExit(f"the server does not work without a fault: {run.outcomes}\n{run.text()}")
            most = max(most, run.seen)
        return most

    def note_rest(self):
        run = Run(self, "dispatcher", "serve", "alloc", 0, self.options.ports)
        try:
            run.start()
            run.wait_line("Ready:")
            run.check_all_right()
            run.client.close()
            time.sleep(0.2)
            self.rest = run.descriptors()
            run.process.send_signal(signal.SIGTERM)
            run.wait_exit()
        finally:
            run.end()

    def take(self, run):
        key = (run.role, run.phase, run.kind)
        self.rows.append(run)
        if not run.fired:
            self.results[key]["not reached"] += 1
        elif not run.outcomes:
            self.results[key]["nothing to be seen"] += 1
        for o in dict.fromkeys(run.outcomes):
            self.results[key]["WRONG" if o.startswith("WRONG") else o] += 1
        if run.wrong:
            self.wrongs.append(run)
            print(f"{NAMES[run.role]} {run.phase} {run.kind} {run.at}: {run.wrong}\n    {run.where()}", flush=True)
            if self.options.verbose:
                print("    | " + run.text().replace("\n", "\n    | "), flush=True)

    def plan(self):
        o = self.options
        todo = []
        parts = [(role, phase, kind) for role, phase, kind in itertools.product(o.role, o.phase, o.kind)
                 if phase != "deploy" or role in DEPLOYS]
        with concurrent.futures.ThreadPoolExecutor(o.jobs) as pool:
            counts = list(pool.map(lambda part: self.count(*part), parts))
        for (role, phase, kind), n in zip(parts, counts):
            self.results[role, phase, kind]["calls"] = n
            # a quick sweep is not spent on the one part that is longer than all others together
            every = max(1, -(-n // PART)) if o.quick else 1
            todo += [(role, phase, kind, at) for at in (o.at or range(1, n + 1, every)) if at <= max(n, max(o.at or [0]))]
        return todo

    def sweep(self):
        o = self.options
        self.note_rest()
        todo = self.plan()
        if o.quick:
            step = max(1, -(-len(todo) // o.runs))
            todo = todo[o.offset % step::step]
            random.Random(1).shuffle(todo)  # what a slow machine has no time for is of no one part
        until = time.monotonic() + o.quick if o.quick else None
        with concurrent.futures.ThreadPoolExecutor(o.jobs) as pool:
            for run in pool.map(lambda t: None if until and time.monotonic() > until else self.run(*t), todo):
                if run:
                    self.take(run)
        self.show()
        return 1 if self.wrongs or not self.rows else 0

    def show(self):
        for (role, phase, kind), what in self.results.items():
            done = sum(1 for r in self.rows if (r.role, r.phase, r.kind) == (role, phase, kind))
            rest = ", ".join(f"{n} {w}" for w, n in what.most_common() if w != "calls")
            print(f"{NAMES[role]:10} {phase:5} {kind:9} {what['calls']:5} calls, {done:5} failed: {rest}")
        print(f"{len(self.rows)} runs, {len(self.wrongs)} wrong")
        if self.options.report:
            rows = [{"role": NAMES[r.role], "phase": r.phase, "kind": r.kind, "at": r.at, "outcomes": r.outcomes,
                     "where": r.where()} for r in self.rows]
            Path(self.options.report).write_text(json.dumps(rows, indent=1))


def words(allowed):
    return lambda text: [w for w in allowed if w in text.split(",")]


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--build", default="build/release")
    p.add_argument("--quick", type=float, help="stop after this many seconds, with a stride over all n")
    p.add_argument("--runs", type=int, default=275, help="how many a quick sweep tries to do")
    p.add_argument("--offset", type=int, default=0, help="where the stride begins")
    p.add_argument("--role", type=words(ROLES), default=ROLES)
    p.add_argument("--phase", type=words(PHASES), default=PHASES)
    p.add_argument("--kind", type=words(KINDS), default=KINDS)
    p.add_argument("--at", type=lambda t: [int(x) for x in t.split(",")], help="only these n")
    p.add_argument("--tls", action="store_true", help="with a port that speaks TLS, and requests to it")
    p.add_argument("--jobs", type=int, default=2)
    p.add_argument("--ports", type=int, default=9600)  # below those of support.ports
    p.add_argument("--calls-only", action="store_true", help="the shim without allocations, for a sanitized build")
    p.add_argument("--report", help="every run, as JSON")
    p.add_argument("-v", "--verbose", action="store_true")
    sys.exit(Sweep(p.parse_args()).sweep())


if __name__ == "__main__":
    main()
