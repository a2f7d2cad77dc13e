"""Ports that are named before a server has them."""

import random
import socket
from pathlib import Path

LEAST = 10000


def free():
    """One that nobody gets by chance meanwhile: the kernel takes what connections and port 0 are given from a range of
    its own, which is above."""
    end = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        try:
            with socket.create_server(("", random.randrange(LEAST, end) if end > LEAST else 0)) as s:
                return s.getsockname()[1]
        except OSError:  # somebody has it
            pass
