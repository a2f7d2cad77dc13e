"""Workers that no server of ours starts, as processes: the examples in every language, made ready to run."""

import contextlib
import functools
import os
import shutil
import signal
import subprocess
import sys

from grpc_tools import protoc

from . import paths, wait
from .process.server import Log
from .protocol.management import unix_path

EXAMPLES = paths.ROOT / "examples/workers"
sys.path.insert(0, str(paths.ROOT / "tests/conform"))
import build_tools  # noqa: E402

BUILT = paths.ROOT / "build/workers"


class Process:
    """A worker's process, its output read."""

    def __init__(self, command, server=None, **env):
        name, _, value = server.mark.partition("=") if server else ("ANYSERVE_TEST", "", "1")
        self.process = subprocess.Popen([str(c) for c in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, env={**os.environ, name: value, **env})
        self.log = Log(self.process.stdout)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()

    def kill(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.log.join()

    def stop(self):
        """SIGTERM; the exit code, and what it printed."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(wait.SECONDS)
        self.log.join()
        return code, self.log.text()


@functools.cache
def _python():
    BUILT.mkdir(parents=True, exist_ok=True)
    code = protoc.main(["", f"-I{paths.PROTO.parent}", f"--python_out={BUILT}", paths.PROTO.name])
    assert code == 0
    return [sys.executable, EXAMPLES / "python/worker.py"]


@functools.cache
def _go():
    """As the head of worker.go says, in a copy: nothing is made among the sources."""
    source, binary = BUILT / "examples/workers/go", BUILT / "go-worker"
    newest = max(f.stat().st_mtime for f in [*(EXAMPLES / "go").glob("*.*"), paths.PROTO])
    if not binary.exists() or binary.stat().st_mtime < newest:
        build_tools.OUT.mkdir(parents=True, exist_ok=True)
        go = str(build_tools.find_go())
        shutil.rmtree(source, ignore_errors=True)
        shutil.copytree(EXAMPLES / "go", source, ignore=shutil.ignore_patterns("oip", "worker"))
        shutil.copytree(paths.PROTO.parent, BUILT / "proto", dirs_exist_ok=True)
        # With the same flags Go compiles its own packages once for the conformance tools and for this.
        env = {**build_tools.ENV, "PATH": os.path.dirname(go) + os.pathsep + os.environ["PATH"]}
        for command in (["generate"], ["build", "-o", binary, "."]):
            run = subprocess.run([go, *command], cwd=source, env=env, capture_output=True, text=True, check=False)
            assert run.returncode == 0, f"go {command}:\n{run.stdout}{run.stderr}"
    return [binary]


@functools.cache
def _node():
    node = shutil.which("node") or shutil.which("nodejs")
    assert node, "Node is missing: tools/setup.sh installs it"
    return [node, EXAMPLES / "node/worker.mjs"]


LANGUAGES = {"python": _python, "go": _go, "node": _node}  # on the simple protocol
NATIVE_C = paths.BUILD / "tests/workers/add"
ALL = sorted([*LANGUAGES, "c"])  # and the same model in C on the native link
SIMPLE_C = paths.BUILD / "bench/simple_worker"


def start(server, language, worker=None, management=None, **env):
    """An example, or the worker in C; `worker` is its id. It is registered when wait_registered returns."""
    if language == "c":
        return Process([NATIVE_C, server.port, server.runtime], server)
    worker = worker or language
    folder = server.folder_of_port()
    return Process([*LANGUAGES[language](), management or unix_path(server),
                    os.path.join(folder, "workers", worker + ".sock")], server, PYTHONPATH=str(BUILT), **env)


def wait_registered(process, since=0):
    process.log.wait("registered|connected", since)


@contextlib.contextmanager
def echo(server, worker, *options):
    """bench/simple_worker, listening at the worker's socket; registering is up to the caller."""
    path = os.path.join(server.folder_of_port(), "workers", worker + ".sock")
    with Process([SIMPLE_C, *options, path], server) as process:
        process.log.wait("listening")
        yield process
