"""A server for HTTP applications, and requests to it; the test is the driver that deploys them."""

import contextlib
import http.client
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from support import paths, ports, wait
from support.process import procs
from support.protocol import http as clients

HOST = "127.0.0.1"


class Site:
    def __init__(self, api, folder, pid):
        self.api, self.folder, self.host, self.port = api, folder, HOST, int(os.environ["ANYSERVE_PORT"])
        self.pid = pid  # of the supervisor

    @property
    def log(self):
        """What the server has written."""
        return (self.folder / "log").read_text(errors="replace")

    @property
    def dispatcher(self):
        """Its pid."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        (pid,) = [c for c in children if procs.command(c).startswith("anyserve dispatcher")]
        return int(pid)

    def is_up(self):
        try:
            return self.get("/-/healthz").status == 200
        except OSError:
            return False

    def get(self, path, method="GET", body=None, headers=(), version="h1"):
        with contextlib.closing(clients.CLIENTS[version](self.host, self.port)) as c:
            return c.request(method, path, body, list(headers))

    def logged(self, prefix="/web"):
        return self.get(prefix + "/logged").json()

    def wait_logged(self, what, prefix="/web"):
        return wait.until(lambda: [e for e in self.logged(prefix) if e == what or (isinstance(e, dict) and e["name"] == what)],
                          lambda: f"{what!r} in {self.logged(prefix)}")  # fmt: skip

    def begin(self, method, path, headers=()):
        """A request over HTTP/1.1 whose body the test sends itself."""
        c = http.client.HTTPConnection(self.host, self.port, timeout=wait.SECONDS)
        c.putrequest(method, path)
        for name, value in headers:
            c.putheader(name, value)
        c.endheaders()
        return c


@contextlib.contextmanager
def site(*options):
    """A server with these options; this process is its driver."""
    folder, port = Path(tempfile.mkdtemp(prefix="as-", dir="/tmp")), ports.free()
    given = {"ANYSERVE_PORT": str(port), "ANYSERVE_RUNTIME_DIR": str(folder / "run"),
             "PYTHONPATH": os.pathsep.join([str(paths.SDK), str(paths.APPS / "asgi")])}  # fmt: skip
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    for path in (paths.APPS / "asgi", paths.SDK):
        if str(path) not in sys.path:
            sys.path.insert(0, str(path))
    from anyserve import serve

    with open(folder / "log", "wb") as out:
        server = subprocess.Popen([paths.BINARY, "start", f"--port={port}", f"--runtime-dir={folder / 'run'}", "--status-port=off",
                                   f"--state-dir={folder / 'state'}", *options], stdout=out, stderr=out)  # fmt: skip
    try:
        s = Site(serve, folder, server.pid)
        wait.until(lambda: server.poll() is None and s.is_up(), lambda: s.log)
        yield s
    finally:
        serve.shutdown()
        server.terminate()
        code = server.wait(wait.SECONDS)
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        log = (folder / "log").read_text(errors="replace")
        shutil.rmtree(folder, ignore_errors=True)
    died = re.search(r"AddressSanitizer|runtime error:|event=dispatcher_exit|assertion", log)
    assert code == 0 and not died, f"exit code {code}\n{log[-20000:]}"
