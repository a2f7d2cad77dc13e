"""Serves one of the programs beside this file until stdin ends: launch.py NAME PORT. Under Ray its import is replaced."""

import importlib
import sys

from anyserve import serve

name, port = sys.argv[1], int(sys.argv[2])
if serve.__name__.startswith("ray"):
    import ray

    ray.init(address="local", num_cpus=8, include_dashboard=False, log_to_driver=False)
serve.start(http_options={"host": "127.0.0.1", "port": port})
serve.run(importlib.import_module(name).app)
print("READY", flush=True)
sys.stdin.read()
serve.shutdown()
