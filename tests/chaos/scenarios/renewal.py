"""Certificates are renewed under load, again and again, and a worker is killed or the server upgraded behind each; nobody notices.

Half of the load comes by gRPC, half by HTTP/1.1, both by TLS. After each reload a new connection gets the new certificate, and after
each upgrade the next dispatcher gives the same one. No call may fail and no connection be refused, though no client calls again.
"""

import random
import socket
import ssl
import subprocess
import time

import rig
from support import paths
from support.process import procs

COUNT = 30
RATE, WORKERS = 200, 4  # of each protocol


def serial(server):
    """Of the certificate that a new connection gets."""
    c = ssl.create_default_context(cafile=server.ca)
    with socket.create_connection((server.host, server.port), rig.wait.SECONDS) as raw, c.wrap_socket(raw, server_hostname=server.host) as s:
        return s.getpeercert()["serialNumber"]


def order(server, verb):
    """What `anyserve reload` or `upgrade` says of a failure."""
    done = subprocess.run([str(paths.BINARY), verb, "--runtime-dir", server.runtime, "--port", str(server.port)], capture_output=True,
                          text=True, timeout=120, check=False)
    return f"{verb}: {done.stderr.strip()}" if done.returncode else ""


def run(options):
    pick, wrong, count = random.Random(options.seed), [], options.count or COUNT
    with rig.serving(rig.AnyServe("--log-level", "error", workers=WORKERS, tls=True)) as server:
        server.expect_error("certificates_reload_failed")  # of the watch, which may come between two renames
        rig.wait_workers(server, WORKERS)
        loads = []
        try:
            for protocol in ("grpc", "http"):
                loads.append(rig.Load(server.address, protocol, "nap", RATE, transparent=True, ca=server.ca))
            for i in range(count):
                time.sleep(pick.uniform(0.1, 0.3))
                before = serial(server)
                server.pair.replace_by(server.authority.server(f"renewed{i}"))
                wrong += filter(None, [order(server, "reload")])
                renewed = serial(server)
                wrong += ["the former certificate after a reload"] if renewed == before else []
                if i % 2:
                    wrong += filter(None, [order(server, "upgrade")])
                    wrong += ["another certificate after an upgrade"] if serial(server) != renewed else []
                else:
                    procs.kill(pick.choice(server.worker_pids()))
            rig.wait_workers(server, WORKERS)
            outcomes = [load.end() for load in loads]
        finally:
            for load in loads:
                load.abandon()
        server.note_fds()
    for protocol, outcome in zip(("grpc", "http"), outcomes):
        result = rig.Result("renewal", protocol, renewals=count, upgrades=count // 2, kills=count - count // 2, refused=outcome.refused,
                            **outcome.figures())
        result.add(outcome)
        if outcome.errors:
            result.fault(f"{len(outcome.errors)} calls failed: {outcome.examples()}")
        if outcome.refused:
            result.fault(f"{outcome.refused} connections refused")
        for fault in sorted(set(wrong)):
            result.fault(f"{wrong.count(fault)} times: {fault}")
        yield result
