"""HAProxy before four plain HTTP workers, with the best settings for retries that it has; the harness restarts workers.

The interface is that of rig.AnyServe, so that a scenario runs the same load and the same kills against both.
"""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request
from pathlib import Path

from support import wait

HERE = Path(__file__).resolve().parent

# Of what 2.6 can repeat, all that a request which may be executed twice allows. Failing checks and failing connections
# both take a server out at once; one good check brings it back.
CONF = """
global
    nbthread 1
    maxconn 4096
defaults
    mode http
    timeout connect 1s
    timeout client 60s
    timeout server 60s
    timeout queue {deadline}s
    retries 3
    option redispatch 1
    retry-on {retry_on}
    default-server check inter 100ms fall 1 rise 1 observe layer4 error-limit 1 on-error mark-down
frontend front
    bind 127.0.0.1:{port}
    default_backend workers
backend workers
    balance leastconn
    option httpchk GET /health
{servers}
"""
IDEMPOTENT = "conn-failure empty-response response-timeout"
ONCE = "conn-failure"  # nothing was sent


def free_ports(n):
    held = [socket.socket() for _ in range(n)]
    for s in held:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in held]
    for s in held:
        s.close()
    return ports


class HAProxy:
    name = "HAProxy"
    ca = None  # clients come in clear text

    def __init__(self, workers=4, journal=None, idempotent=True, deadline=10):
        if not shutil.which("haproxy"):
            raise FileNotFoundError("haproxy is not installed: tools/setup.sh chaos")
        port, *ports = free_ports(1 + workers)
        self.address = f"127.0.0.1:{port}"
        self.folder = tempfile.mkdtemp(prefix="as-", dir="/tmp")
        self._env = {**os.environ, **({"CHAOS_JOURNAL": str(journal)} if journal else {})}
        self._stopping, self._workers = False, {}
        servers = "\n".join(f"    server w{p} 127.0.0.1:{p}" for p in ports)
        conf = Path(self.folder, "haproxy.cfg")
        conf.write_text(CONF.format(port=port, servers=servers, deadline=deadline,
                                    retry_on=IDEMPOTENT if idempotent else ONCE))
        self._threads = [threading.Thread(target=self._keep, args=(p,), daemon=True) for p in ports]
        for t in self._threads:
            t.start()
        self._proxy = subprocess.Popen(["haproxy", "-q", "-db", "-f", str(conf)], stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL)
        wait.until(self._answers, "HAProxy to answer", 20)

    def _keep(self, port):
        """One worker, started again at once whenever it ends."""
        while not self._stopping:
            process = subprocess.Popen([sys.executable, str(HERE / "plain_worker.py"), str(port)], env=self._env)
            self._workers[port] = process
            process.wait()

    def _answers(self):
        try:
            with urllib.request.urlopen(f"http://{self.address}/health", timeout=1) as reply:
                return reply.status == 200
        except (urllib.error.URLError, OSError):
            return False

    def worker_pids(self):
        return [p.pid for p in list(self._workers.values()) if p.poll() is None]

    def stop(self):
        self._stopping = True
        self._proxy.terminate()
        self._proxy.wait()
        while any(t.is_alive() for t in self._threads):
            for p in list(self._workers.values()):
                if p.poll() is None:
                    p.kill()
            for t in self._threads:
                t.join(0.05)
        shutil.rmtree(self.folder, ignore_errors=True)
