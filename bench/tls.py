"""What TLS costs: requests on kept-alive connections beside clear text, handshakes beside nginx, a flood of handshakes beside requests.

usage: python bench/tls.py [--build build/release] [--rounds 5] [--seconds 3]

One server of the echo model has a TLS port and a clear one; they take turns, so that what disturbs the machine disturbs both. Ratios are
formed within a round; the tables show medians, and the least and the largest. Servers run on core 1, clients on core 0.

- *kept alive*: wrk with 64 connections over HTTP/1.1, each with one request of 16 floats in JSON (or 1 MiB of binary data with 4
  connections) in flight; `anyserve bench` with 64 connections over gRPC. CPU is that of the dispatcher.
- *full handshakes*: `clients/handshakes.c` with 4 processes, without resumption. nginx has one worker, the same certificate, no tickets
  and the same suites. CPU is that of the dispatcher, or of nginx's worker.
- *memory*: what 400 more connections add to the dispatcher's resident memory.
- *flood*: `anyserve bench` at 500 requests/s on 16 kept-alive connections, alone and while 4 processes do nothing but handshakes.

Meaningful only on a quiet machine.
"""

import argparse
import json
import re
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import servers
from report import table
from rest import binary_body, json_body, remove_files
from servers import BENCH, ROOT, cpu_ns, free_port

sys.path.insert(0, str(ROOT / "tests/e2e"))
from security.certificates import Authority  # noqa: E402

CLIENT, SERVER = {0}, {1}


class AnyServe(servers.AnyServe):
    """Its port speaks clear text, which is what the other programs here expect; `tls_port` is a --listen."""

    def __init__(self, build, pair):
        self.tls_port = free_port()
        super().__init__(build, options=("--threads", 1, "--tls-cert", pair.cert, "--tls-key", pair.key, "--listen",
                                         f"127.0.0.1:{self.tls_port}"))

    def wait_ready(self, seconds=60):
        self.port, self.tls_port = self.tls_port, self.port
        super().wait_ready(seconds)

    def dispatcher(self):
        return next(pid for pid, role in self.processes.items() if role == "dispatcher")


def start_nginx(folder, pair):
    port = free_port()
    (folder / "nginx.conf").write_text(f"""
user root; daemon off; worker_processes 1; pid nginx.pid; error_log stderr warn;
events {{ worker_connections 4096; multi_accept on; }}
http {{
    access_log off; client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
    server {{ listen 127.0.0.1:{port} ssl backlog=4096; ssl_certificate {pair.cert}; ssl_certificate_key {pair.key};
              ssl_protocols TLSv1.2 TLSv1.3; ssl_session_tickets off; ssl_session_cache off; return 200 "ok"; }}
}}
""")
    process = subprocess.Popen([shutil.which("nginx") or "/usr/sbin/nginx", "-p", folder, "-c", folder / "nginx.conf", "-e", "stderr"])
    while not servers.children(process.pid):
        time.sleep(0.05)
    time.sleep(0.5)
    return process, port, servers.children(process.pid)[0]


def run(command, pid):
    """(output, CPU ns of pid) of a command on the client's core."""
    before = cpu_ns(pid)
    done = subprocess.run(["taskset", "-c", "0", *map(str, command)], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{command}: {done.stdout} {done.stderr}")
    return done.stdout, cpu_ns(pid) - before


def wrk(pid, scheme, port, body, connections, seconds):
    headers = [part for header in body.headers for part in header]
    out, cpu = run(["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--latency", "-s", BENCH / "clients/post.lua",
                    f"{scheme}://127.0.0.1:{port}{body.path}", "--", "POST", body.file(), *headers], pid)
    found = json.loads(out.strip().splitlines()[-1])
    if found["failed"] or found["broken"]:
        raise SystemExit(out)
    rate = found["total"] / found["seconds"]
    return rate, cpu / (rate * seconds) / 1000


def grpc(options, server, authority, tls, seconds):
    command = [options.build / "src/app/anyserve", "bench", "echo", "--input", "x:FP32:[32]=" + ",".join(["1"] * 32), "--connections", 64,
               "--duration", f"{seconds}s", "--warmup", "300ms", "--json"]
    where = ["--url", f"localhost:{server.tls_port}", "--tls", "--ca", authority.cert] if tls else ["--url", f"127.0.0.1:{server.port}"]
    out, cpu = run([*command, *where], server.dispatcher())
    found = json.loads(out)
    return found["per_second"], cpu / found["sent"] / 1000


def cells(clear, tls):
    ratios = [t[0] / c[0] for c, t in zip(clear, tls)]
    rate = lambda rows: f"{median(r for r, _ in rows):,.0f}"  # noqa: E731
    cpu = lambda rows: f"{median(c for _, c in rows):.1f}"  # noqa: E731
    return [rate(clear), rate(tls), f"{median(ratios):.2f} [{min(ratios):.2f}..{max(ratios):.2f}]", cpu(clear), cpu(tls)]


def kept_alive(options, server, authority):
    pid, rows = server.dispatcher(), []
    loads = [("HTTP/1.1, JSON of 16 floats, 64 connections", json_body(16), 64), ("HTTP/1.1, 1 MiB, 4 connections", binary_body(1 << 20, "1 MiB"), 4)]
    for title, body, connections in loads:
        clear, tls = [], []
        for _ in range(options.rounds):
            clear.append(wrk(pid, "http", server.port, body, connections, options.seconds))
            tls.append(wrk(pid, "https", server.tls_port, body, connections, options.seconds))
        rows.append([title, *cells(clear, tls)])
    clear, tls = [], []
    for _ in range(options.rounds):
        clear.append(grpc(options, server, authority, False, options.seconds))
        tls.append(grpc(options, server, authority, True, options.seconds))
    rows.append(["gRPC, 128 bytes, 64 connections", *cells(clear, tls)])
    print(table(["load", "clear text, requests/s", "TLS, requests/s", "ratio", "CPU µs, clear", "CPU µs, TLS"], rows))


def memory(server, authority):
    """Resident KiB of the dispatcher for each kept-alive connection of HTTP/1.1 that has had one request."""
    context = ssl.create_default_context(cafile=authority.cert)

    def resident():
        return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{server.dispatcher()}/status").read_text())[1])

    def connect(tls, n):
        opened = []
        for _ in range(n):
            s = socket.create_connection(("127.0.0.1", server.tls_port if tls else server.port))
            s = context.wrap_socket(s, server_hostname="localhost") if tls else s
            s.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n")
            s.recv(4096)
            opened.append(s)
        return opened

    kept = connect(False, 50) + connect(True, 50)
    found = []
    for tls in False, True:
        before = resident()
        kept += connect(tls, 400)
        found.append(f"{(resident() - before) / 400:.1f}")
    for s in kept:
        s.close()
    print(table(["memory", "clear text", "TLS"], [["KiB per connection", *found]]))


def handshakes(options, kind, server, pair):
    program = options.build / "bench/handshakes"
    folder = Path(tempfile.mkdtemp(prefix="anyserve-bench-"))
    process, port, worker = start_nginx(folder, pair)
    servers.pin(worker, SERVER)
    ours, theirs = [], []
    try:
        for _ in range(options.rounds):
            for found, where, pid in (theirs, port, worker), (ours, server.tls_port, server.dispatcher()):
                out, cpu = run([program, where, options.seconds, 4], pid)
                done, failed = map(int, out.split())
                if failed:
                    raise SystemExit(f"{failed} of {done} handshakes failed at {where}")
                found.append((done / options.seconds, cpu / done / 1000))
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(folder)
    return [kind, *cells(theirs, ours)]


def flood(options, server, kind):
    command = [options.build / "src/app/anyserve", "bench", "echo", "--input", "x:FP32:[32]=" + ",".join(["1"] * 32), "--connections", 16,
               "--rate", 500, "--duration", f"{2 * options.seconds}s", "--warmup", "300ms", "--json", "--url", f"127.0.0.1:{server.port}"]
    rows = []
    for name in "alone", "beside handshakes":
        found = []
        for _ in range(options.rounds):
            attackers = None
            if name != "alone":
                attackers = subprocess.Popen(["taskset", "-c", "0", options.build / "bench/handshakes", str(server.tls_port),
                                              str(2 * options.seconds + 2), "4"], stdout=subprocess.PIPE, text=True)
                time.sleep(0.5)
            out, _ = run(command, server.dispatcher())
            result = json.loads(out)
            done = attackers.communicate()[0].split()[0] if attackers else "0"
            latency = result["latency_us"]
            found.append((latency["p50"] / 1000, latency["p99"] / 1000, latency["max"] / 1000, result["failed"] + result["unanswered"], int(done) / (2 * options.seconds + 2)))
        rows.append([f"{kind}, {name}", *(f"{median(f[i] for f in found):.2f}" for i in range(3)), str(sum(f[3] for f in found)),
                     f"{median(f[4] for f in found):,.0f}"])
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=ROOT / "build/release", type=Path)
    parser.add_argument("--rounds", default=5, type=int)
    parser.add_argument("--seconds", default=3, type=int)
    options = parser.parse_args()
    authority = Authority(Path(tempfile.mkdtemp(prefix="anyserve-bench-")))
    shaken, flooded = [], []
    try:
        for kind, rsa in ("RSA 2048", True), ("ECDSA P-256", False):
            pair = authority.server(kind.split()[0], rsa=rsa)
            server = AnyServe(options.build, pair)
            server.start()
            try:
                for pid in server.processes:
                    servers.pin(pid, SERVER)
                if rsa:
                    kept_alive(options, server, authority)
                    memory(server, authority)
                shaken.append(handshakes(options, kind, server, pair))
                flooded += flood(options, server, kind)
            finally:
                server.stop()
    finally:
        shutil.rmtree(authority.folder)
        remove_files()
    print(table(["full handshakes", "nginx, /s", "AnyServe, /s", "ratio", "CPU µs, nginx", "CPU µs, AnyServe"], shaken))
    print(table(["requests at 500/s", "p50 ms", "p99 ms", "longest ms", "errors", "handshakes/s"], flooded))


if __name__ == "__main__":
    main()
