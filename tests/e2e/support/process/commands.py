"""Commands of `anyserve` as child processes: those that end by themselves, and those that go on."""

import signal
import subprocess

from .. import paths, wait
from .server import Log


def run(*args, code=None, **kwargs):
    done = subprocess.run([str(paths.BINARY), *map(str, args)], capture_output=True, text=True, timeout=wait.SECONDS,
                          stdin=subprocess.DEVNULL, **kwargs)
    assert code is None or done.returncode == code, done
    assert "Sanitizer" not in done.stderr, done.stderr
    return done


def at(server):
    return "--runtime-dir", server.runtime, "--port", str(server.port)


class Watch:
    """A command that goes on until it is told to end; its lines as they come."""

    def __init__(self, *args):
        self.process = subprocess.Popen([str(paths.BINARY), *map(str, args)], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.log = Log(self.process.stdout)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.log.join()

    def end(self, code, signum=signal.SIGINT):
        if signum:
            self.process.send_signal(signum)
        assert self.process.wait(wait.SECONDS) == code, self.log.text()
