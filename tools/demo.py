#!/usr/bin/env python3
"""`make run`: serves examples/echo_add.py, sends it one request, shows the answer, serves on until Ctrl-C.

Without a terminal, or with ONESHOT=1, it stops after the answer. PORT names another port than 8000.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import tritonclient.grpc as triton

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build/release"


def wait_ready(server, client):
    """Until the model answers as ready, or the server has ended."""
    while True:
        try:
            if client.is_model_ready("add", client_timeout=5):
                return True
        except triton.InferenceServerException:
            pass  # not listening yet
        try:
            server.wait(0.1)
            return False
        except subprocess.TimeoutExpired:
            pass


def show_one(client, port):
    values = {"a": np.array([1, 2, 3], np.float32), "b": np.array([10, 20, 30], np.float32)}
    inputs = []
    for name, array in values.items():
        inputs.append(triton.InferInput(name, list(array.shape), "FP32"))
        inputs[-1].set_data_from_numpy(array)
    result = client.infer("add", inputs)
    print(f"\nA client (tritonclient, gRPC) asks 127.0.0.1:{port} for model \"add\":")
    for name, array in values.items():
        print(f"  {name}   = {array.tolist()}")
    print(f"  sum = {result.as_numpy('sum').tolist()}\n", flush=True)


def main():
    port = os.environ.get("PORT", "8000")
    is_oneshot = os.environ.get("ONESHOT") == "1" or not sys.stdin.isatty()
    server = subprocess.Popen([BUILD / "src/app/anyserve", "run", "examples/echo_add.py",
                               "--port", port, "--python", sys.executable],
                              cwd=ROOT, env=dict(os.environ, PYTHONPATH=str(BUILD / "python")))
    try:
        client = triton.InferenceServerClient(f"127.0.0.1:{port}")
        if not wait_ready(server, client):
            return server.returncode or 1
        show_one(client, port)
        if not is_oneshot:
            print("Serving; Ctrl-C ends it.", flush=True)
            return server.wait()
    except KeyboardInterrupt:
        return server.wait()  # the terminal has told the server too
    except BaseException:
        server.send_signal(signal.SIGTERM)
        server.wait()
        raise
    server.send_signal(signal.SIGTERM)
    return server.wait()


if __name__ == "__main__":
    sys.exit(main())
