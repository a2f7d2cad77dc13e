"""`anyserve upgrade` beside a test: the command runs while the test goes on."""

import subprocess

from .. import paths, wait


class Upgrade:
    """It ends when the former dispatcher has."""

    def __init__(self, server, *options):
        command = [paths.BINARY, "upgrade", "--runtime-dir", server.runtime, "--port", server.port, *options]
        self.process = subprocess.Popen([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()

    def finish(self):
        """It went well."""
        out, err = self.process.communicate(timeout=wait.SECONDS)
        assert (self.process.returncode, err) == (0, "") and out.startswith("upgraded to "), err

    def fail(self):
        """It did not; returns what the command says."""
        out, err = self.process.communicate(timeout=wait.SECONDS)
        assert (self.process.returncode, out) == (1, "") and err.startswith("anyserve: not upgraded: "), (out, err)
        return err.removeprefix("anyserve: not upgraded: ").strip()


def wait_next(server, former):
    """Status answers from the next dispatcher, and all its workers have come."""
    def look():
        try:
            return server.dispatcher != former and server.all_ready()
        except (OSError, IndexError, ValueError):
            return False
    wait.until(look, lambda: server.log.text())
