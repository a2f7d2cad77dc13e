"""Serves one of the programs beside this file until stdin ends: launch.py NAME PORT. Under Ray its import is replaced."""

import importlib
import sys

from anyserve import serve


def start(port):
    if serve.__name__.startswith("ray"):
        import ray

        ray.init(address="local", num_cpus=8, include_dashboard=False, log_to_driver=False)
    serve.start(http_options={"host": "127.0.0.1", "port": port})


if __name__ == "__main__":
    start(int(sys.argv[2]))
    serve.run(importlib.import_module(sys.argv[1]).app)
    print("READY", flush=True)
    sys.stdin.read()
    serve.shutdown()
