"""Which server a command is about: the one of this user, runtime directory and port, as in a program."""

from __future__ import annotations

import os
import socket
from typing import Optional, Tuple
from urllib.parse import urlsplit

from .._driver import server as servers
from .._driver.current import driver
from .say import refuse, say

__all__ = ["find", "find_or_none", "set_address", "set_port"]

# Where a Ray cluster's dashboard, GCS and client server listen: such an address means the server of this user.
RAY_PORTS = (8265, 6379, 10001)


def _split(address: str) -> Tuple[str, Optional[int]]:
    url = urlsplit(address if "://" in address else "//" + address)
    try:
        return url.hostname or "", url.port
    except ValueError:
        refuse("--address %s is no address: the port is not a number up to 65535" % address)


def _is_here(host: str) -> bool:
    return host in ("", "localhost", "0.0.0.0", "::", "::1", socket.gethostname()) or host.startswith("127.")


_named = False  # by --address


def set_port(port: int) -> None:
    """That of a config file: --address counts more."""
    if not _named:
        os.environ["ANYSERVE_PORT"] = str(port)


def set_address(address: Optional[str]) -> None:
    """The server that --address names: `http://localhost:PORT`, `localhost:PORT` or `PORT`. `auto`: as if it were not given."""
    if address in (None, "", "auto", "local"):
        return
    assert address is not None
    host, port = ("", int(address)) if address.isdigit() and len(address) < 6 else _split(address)
    if not _is_here(host):
        refuse("--address %s: only servers of this machine can be managed; `anyserve deploy --control HOST:PORT` reaches others"
               % address)  # fmt: skip
    if port is None or port in RAY_PORTS:
        if port and servers.find(port) is None:
            say("--address %s is a port of a Ray cluster: the server at port %d is used." % (address, servers.default_port()))
            return
    if port is not None:
        global _named
        _named = True
        os.environ["ANYSERVE_PORT"] = str(port)


def find_or_none() -> Optional[servers.Server]:
    try:
        return driver.find()
    except ValueError as e:  # $ANYSERVE_PORT
        refuse(str(e))


def find() -> servers.Server:
    """Refused: none runs."""
    server = find_or_none()
    if server is None:
        refuse("No server runs at port %d (runtime directory %s). `start` starts one in the background, `run` one that ends with"
               " it." % (servers.default_port(), servers.runtime_dir()))  # fmt: skip
    return server
