"""A terminal that a server is started on, and that can be closed."""

import os
import pty
import sys

from .. import paths


class Terminal:
    """program: to be started, as the first process of a session, in place of the server's."""

    def __init__(self, folder):
        self._fd, self._other = pty.openpty()
        self.program = folder / "on_terminal"
        # a session's first process gets the terminal that it opens (credentials(7), tty_ioctl(4))
        self.program.write_text(f"#!{sys.executable}\nimport os, sys\nos.close(os.open({os.ttyname(self._other)!r}, os.O_RDWR))\n"
                                f"os.execv({str(paths.BINARY)!r}, [{str(paths.BINARY)!r}, *sys.argv[1:]])\n")
        self.program.chmod(0o755)

    def close(self):
        """The kernel says so to the server (SIGHUP)."""
        for fd in self._fd, self._other:
            if fd >= 0:
                os.close(fd)
        self._fd = self._other = -1
