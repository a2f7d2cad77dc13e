#!/usr/bin/env python3
"""What somebody does first with an installed AnyServe: the version, a server, a request by HTTP and one by gRPC, and a
program with deployments of its own.

    first_use.py COMMAND…      COMMAND is how `anyserve` is called here

Uses nothing but the standard library. Exit code 0: all of it was right.
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

APP = Path(__file__).resolve().parent / "app.py"
PROGRAM = APP.with_name("greet.py")
SECONDS = 120  # "does not hang"


def call(command, *args):
    done = subprocess.run([*command, *args], capture_output=True, text=True, timeout=SECONDS, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(args)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def wait_ready(server):
    """The address that it prints when it serves."""
    said = []
    for line in server.stdout:
        said.append(line)
        found = re.search(r"^Ready: (\S+:\d+) ", line)
        if found:
            return found[1]
    sys.exit(f"the server ended with {server.wait()}:\n{''.join(said)}")


def ask(command, address):
    body = {"inputs": [{"name": "x", "shape": [2], "datatype": "FP32", "data": [1, 2.5]}]}
    url = f"http://{address}/v2/models/double/infer"
    with urllib.request.urlopen(url, json.dumps(body).encode(), timeout=SECONDS) as answer:
        assert json.load(answer)["outputs"][0]["data"] == [2, 5]
    said = call(command, "infer", "double", "--input", "x=3,4", "--url", address, "--protocol", "grpc")
    assert re.search(r"\b6\b.*\b8\b", said, re.S), said


def run_program(folder):
    """It brings its server along, and cloudpickle its code."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    environ = {**os.environ, "ANYSERVE_PORT": str(port), "ANYSERVE_RUNTIME_DIR": folder + "/run",
               "ANYSERVE_STATE_DIR": folder + "/state"}  # fmt: skip
    done = subprocess.run([sys.executable, str(PROGRAM)], capture_output=True, text=True, timeout=SECONDS, check=False,
                          env=environ, cwd=folder)  # fmt: skip
    if done.stdout != "['Hello world', 'Hello world']\n":
        sys.exit(f"{PROGRAM.name}: exit code {done.returncode}\n{done.stdout}{done.stderr}")


def main():
    command = sys.argv[1:]
    print(call(command, "--version").strip())
    with tempfile.TemporaryDirectory() as folder:
        run_program(folder)
        runtime = ["--runtime-dir", folder]
        server = subprocess.Popen([*command, "run", str(APP), "--port", "0", "--status-port", "0", *runtime],
                                  text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
        signal.alarm(SECONDS)
        try:
            ask(command, wait_ready(server))
            assert "double" in call(command, "status", *runtime)
            print(os.readlink(f"/proc/{server.pid}/exe"))
        finally:
            server.terminate()
            rest, _ = server.communicate(timeout=SECONDS)
    if server.returncode:
        sys.exit(f"the server ended with {server.returncode}:\n{rest}")


if __name__ == "__main__":
    main()
