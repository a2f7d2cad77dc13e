"""REST under measurement: what wrk is told to send, the servers that only speak HTTP/1.1, and the sections."""

import http.client
import json
import math
import os
import random
import shutil
import struct
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from report import cpu_cell, others_cell, spread, table, thousands
from client import Call
from sampling import PINNED, UNPINNED, Load, measure, mid, ratios
from servers import BENCH, Failed, Server, children, free_port

CHUNKS = 1000  # responses to one request of a stream
GRPC_LOAD = Load(16, 1, call=Call(payload=65536))


@dataclass(frozen=True)
class Body:
    """One request to the echo model, and how to see that an answer has the same tensor."""
    title: str
    content: bytes
    headers: tuple = ()
    path: str = "/v2/models/echo/infer"
    model: str = "echo"

    def file(self):
        """Where wrk finds it."""
        path = Path(tempfile.gettempdir()) / f"anyserve-bench-{os.getpid()}-{abs(hash(self.content))}"
        if not path.exists():
            path.write_bytes(self.content)
            FILES.append(path)
        return path

    def post(self, port):
        """(status, headers, body) of one request."""
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        try:
            connection.request("POST", self.path, self.content, dict(self.headers))
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()


FILES = []


def remove_files():
    while FILES:
        FILES.pop().unlink()


def json_body(count):
    """`count` floats as a model's outputs look: any of 32 bits, in their shortest form."""
    rng = random.Random(count)
    values = [struct.unpack("f", struct.pack("f", rng.gauss(0, 1)))[0] for _ in range(count)]
    text = ",".join(f"{v:.9g}" for v in values)
    content = ('{"inputs":[{"name":"x","datatype":"FP32","shape":[%d],"data":[%s]}]}' % (count, text)).encode()
    return Body(f"JSON, {count} floats", content, (("content-type", "application/json"),))


def binary_body(size, title):
    head = ('{"inputs":[{"name":"x","datatype":"FP32","shape":[%d],"parameters":{"binary_data_size":%d}}],'
            '"parameters":{"binary_data_output":true}}' % (size // 4, size)).encode()
    return Body(f"binary, {title}", head + random.Random(size).randbytes(size),
                (("content-type", "application/octet-stream"), ("inference-header-content-length", str(len(head)))))


def tensor_of(headers, content):
    """The bytes of the first tensor in a request or an answer: as they are, or as float32 of the JSON's numbers."""
    at = headers.get("inference-header-content-length")
    if at is not None:
        return content[int(at):]
    message = json.loads(content)
    values = (message.get("outputs") or message["inputs"])[0]["data"]
    return struct.pack(f"{len(values)}f", *values)


@dataclass(frozen=True)
class Post(Load):
    """A load of wrk: `connections`, each with one request in flight."""
    body: Body = None

    def __str__(self):
        return f"{self.body.title}, {self.connections}×1"

    def command(self, server, options):
        seconds = max(1, math.ceil(options.seconds))  # wrk knows whole ones only, and no warm-up
        headers = [part for header in self.body.headers for part in header]
        return ["wrk", "-t1", f"-c{self.connections}", f"-d{seconds}s", "-s", BENCH / "clients/post.lua",
                f"http://127.0.0.1:{server.port}{self.body.path}", "--", "POST", self.body.file(), *headers]

    def read(self, text):
        result = json.loads(text.strip().splitlines()[-1])
        if result["failed"] or result["broken"] or not result["total"]:
            raise Failed(f"wrk: {result}")
        return dict(result, per_second=result["total"] / result["seconds"])


class H1Echo(Server):
    """The least that HTTP/1.1 costs."""
    name, role = "h1_echo", "server"

    def start(self):
        self.launch([self.build / "bench/h1_echo", "0"], stdout=subprocess.PIPE, text=True)
        self.read_port()

    def check(self, body):
        if body.post(self.port)[2] != body.content:
            raise Failed("h1_echo sends back something else")


class Nginx(Server):
    """nginx with one worker, that reads a body and answers `return 200`; in a folder of its own."""
    name, role = "nginx", "server"

    def start(self):
        program = shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin")
        if not program:
            raise Failed("nginx is not there; tools/setup.sh bench installs it")
        self.folder = tempfile.TemporaryDirectory(prefix="anyserve-bench-nginx-")
        self.port = free_port()
        config = Path(self.folder.name) / "nginx.conf"
        config.write_text(f"""
{"user root;" if os.getuid() == 0 else ""}
daemon off; worker_processes 1; pid nginx.pid; error_log stderr warn;
events {{ worker_connections 1024; }}
http {{
    access_log off; client_max_body_size 64m; keepalive_requests 1000000000;
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    server {{ listen 127.0.0.1:{self.port}; return 200 "ok"; }}
}}
""")
        self.launch([program, "-p", self.folder.name, "-c", config, "-e", "stderr"])
        self.wait_answer()
        self.processes = self.find_processes()

    def wait_answer(self, seconds=20):
        end = time.monotonic() + seconds
        while True:
            try:
                return self.check(json_body(1))
            except OSError:
                if self.process.poll() is not None or time.monotonic() > end:
                    raise Failed(f"nginx does not answer: {self.log_text()}") from None
                time.sleep(0.05)

    def find_processes(self):
        return {pid: self.role for pid in children(self.process.pid)}

    def check(self, body):
        if body.post(self.port)[0] != 200:
            raise Failed("nginx does not answer with 200")

    def stop(self):
        code = super().stop()
        if self.process:
            self.folder.cleanup()
        return code


def refusal(server, body):
    """Why AnyServe does not serve this request rightly; None: it does."""
    try:
        status, headers, content = body.post(server.port)
    except (OSError, http.client.HTTPException) as e:
        return f"POST {body.path} is not answered ({type(e).__name__}: {e})"
    if status != 200:
        return f"POST {body.path} is answered with {status} ({content[:120].decode(errors='replace')})"
    if body.model == "echo" and tensor_of(headers, content) != tensor_of(dict(body.headers), body.content):
        raise Failed(f"{server.name} answers {body.title} with another tensor")
    return None


def rest_table(result, bases):
    """Requests/s, ratios, latency and CPU; `bases`: servers that the others are set against."""
    rows = []
    for load, by_server in result.items():
        for name, samples in by_server.items():
            rows.append([str(load), name, thousands(mid(samples, "per_second")),
                         *(spread(ratios(samples, by_server[base])) if base in by_server else "" for base in bases),
                         f"{mid(samples, 'p50_us'):.0f}", f"{mid(samples, 'p99_us'):.0f}", cpu_cell(samples),
                         others_cell(samples)])
    return table(["load", "server", "requests/s", *(f"ratio to {base} [min..max]" for base in bases), "p50 µs",
                  "p99 µs", "CPU µs per request", "others' CPU"], rows)


def http_echo(stage):
    """### HTTP/1.1: an echo over REST (pinned)

    The client is wrk 4.1, with one request in flight on each connection, 1 s for each sample. `h1_echo` sends the
    request's bytes back, `nginx` reads them and answers `return 200 "ok"`: neither knows what is in them. The last row
    is the same tensor over gRPC, by the benchmark's own client.
    """
    bodies = [(json_body(16), 64), (json_body(1000), 64), (binary_body(65536, "64 KiB"), 16),
              (binary_body(1 << 20, "1 MiB"), 16)]
    servers = stage.servers("anyserve", "h1_echo", "nginx")
    if not servers:
        return ""
    for server in servers:
        for body, _ in bodies:
            if server.name == "anyserve":
                if (why := refusal(server, body)):
                    return f"Not measured: {why}.\n"
            else:
                server.check(body)
    loads = [Post(connections, 1, body=body) for body, connections in bodies]
    stage.http = measure(servers, loads, stage.options, PINNED, "HTTP")
    parts = [rest_table(stage.http, ["h1_echo", "nginx"])]
    if servers[0].name == "anyserve":
        stage.http_grpc = measure(servers[:1], [GRPC_LOAD], stage.options, PINNED, "64 KiB over gRPC")[GRPC_LOAD]
        parts.append(rest_table({"gRPC, 64 KiB, 16×1": stage.http_grpc}, []))
    return "\n".join(parts)


def sse(stage):
    """### Server-sent events: chunks/s of generate_stream

    A generator gives 1000 responses of one INT32 to each request; one chunk is one event. wrk reads whole answers, so
    that chunks/s are 1000 × answers/s. Pinned: client on core 0, dispatcher and worker on core 1; unpinned: as the
    scheduler likes.
    """
    body = Body("1000 chunks", b'{"n":%d}' % CHUNKS, (("content-type", "application/json"),),
                "/v2/models/count/generate_stream", "count")
    try:
        servers = stage.servers("anyserve count")
    except Failed as e:
        return f"Not measured: this build does not serve a generator ({str(e).strip().splitlines()[-1][:200]}).\n"
    if not servers:
        return ""
    if (why := refusal(servers[0], body)):
        return f"Not measured: {why}.\n"
    events = [line for line in body.post(servers[0].port)[2].split(b"\n") if line.startswith(b"data:")]
    if len(events) != CHUNKS:
        raise Failed(f"{len(events)} events, not {CHUNKS}")
    stage.sse = {}
    rows = []
    for placement in (PINNED, UNPINNED):
        loads = [Post(connections, 1, body=body) for connections in (1, 16)]
        result = measure(servers, loads, stage.options, placement, f"SSE {placement.name}")
        for load, by_server in result.items():
            samples = by_server["anyserve count"]
            stage.sse[placement.name, load.connections] = samples
            cpu = {role: median(s["cpu_us"][role] for s in samples) / CHUNKS for role in samples[0]["cpu_us"]}
            rows.append([placement.name, str(load), thousands(CHUNKS * mid(samples, "per_second")),
                         f"{mid(samples, 'p50_us') / 1000:.1f}", f"{mid(samples, 'p99_us') / 1000:.1f}",
                         ", ".join(f"{role} {us:.2f}" for role, us in cpu.items()), others_cell(samples)])
    return table(["placement", "load", "chunks/s", "p50 ms per answer", "p99 ms", "CPU µs per chunk", "others' CPU"],
                 rows)


def verdict_rows(stage):
    """Rows of the table of limits: (quantity, measured, sign, limit)."""
    rows = []
    if stage.http and {"anyserve", "nginx"} <= set(next(iter(stage.http.values()))):
        by_title = {load.body.title: by_server for load, by_server in stage.http.items()}
        small, large = by_title["JSON, 16 floats"], by_title["binary, 64 KiB"]
        rows.append(("requests/s over nginx `return 200`, JSON of 16 floats, 64 connections",
                     median(ratios(small["anyserve"], small["nginx"])), ">=", 0.5))
        rows.append(("requests/s over HTTP/1.1 against gRPC, 64 KiB, 16×1",
                     median(ratios(large["anyserve"], stage.http_grpc["anyserve"])), ">=", 0.8))
    if stage.sse:
        best = max(CHUNKS * mid(samples, "per_second") for samples in stage.sse.values())
        rows.append(("SSE chunks/s", best, ">=", 100_000))
    return rows
