"""Serves one of the programs beside this file until stdin ends: launch.py NAME PORT. Under Ray its import is replaced.

The program's `app` is served at /, the applications in its `more`, if it has that, at /NAME.
"""

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
    program = importlib.import_module(sys.argv[1])
    for name, application in getattr(program, "more", {}).items():
        serve.run(application, name=name, route_prefix="/" + name)
    serve.run(program.app)
    print("READY", flush=True)
    sys.stdin.read()
    serve.shutdown()
