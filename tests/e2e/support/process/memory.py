"""How far the memory of a process grows."""

from pathlib import Path

from .. import paths

MIB = 1 << 20
ROOM = 76 * MIB  # that a process may grow by; 64 of them may be large blocks that the dispatcher uses again (AS_PAGES_CACHE_MAX)


class Peak:
    """The largest resident memory of a process from now on."""

    def __init__(self, name, pid):
        self.name, self.status = name, Path(f"/proc/{pid}/status")
        Path(f"/proc/{pid}/clear_refs").write_text("5")  # the peak is what is resident now
        self.before = self.read()

    def read(self):
        (line,) = [line for line in self.status.read_text().splitlines() if line.startswith("VmHWM:")]
        return int(line.split()[1]) << 10

    def check(self):
        grown = self.read() - self.before
        print(f"{self.name}: {self.before / MIB:.1f} MiB before, {grown / MIB:.1f} MiB more at the peak")
        assert grown < ROOM or paths.SANITIZED, f"the {self.name} grew by {grown} bytes"
