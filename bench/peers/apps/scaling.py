"""Serves applications whose replicas follow the load, and writes how many there are: scaling.py NAME PORT, until stdin ends.

A line of standard input is a JSON object {application: autoscaling_config}: what was served ends, and these are served, each at
/APPLICATION. Then the file `states` gets a line {"served": [application]}; every PERIOD seconds it gets a line {"t":
time.monotonic(), "replicas": {application: those that are ready}}. NAME is served at / all the time.
"""

import importlib
import json
import queue
import sys
import threading
import time

import scaled
from launch import start

from anyserve import serve

PERIOD = 0.2


def read(commands):
    for line in sys.stdin:
        commands.put(json.loads(line))
    commands.put(None)


def replicas(names):
    """By application: its replicas that requests may go to."""
    applications = serve.status().applications
    found = {}
    for name in names:
        states = [d.replica_states for d in applications[name].deployments.values()] if name in applications else []
        found[name] = sum(int(s.get("RUNNING", 0)) + int(s.get("UPDATING", 0)) for s in states)
    return found


def main():
    start(int(sys.argv[2]))
    serve.run(importlib.import_module(sys.argv[1]).app, name="first", route_prefix="/")
    commands, names = queue.Queue(), []
    threading.Thread(target=read, args=(commands,), daemon=True).start()
    with open("states", "a", buffering=1) as out:
        while True:
            try:
                configs = commands.get(timeout=PERIOD)
            except queue.Empty:
                if names:
                    out.write(json.dumps({"t": time.monotonic(), "replicas": replicas(names)}) + "\n")
                continue
            for name in names:
                serve.delete(name)
            if configs is None:
                break
            serve.run_many([serve.RunTarget(scaled.application(c), name=n, route_prefix="/" + n) for n, c in configs.items()])
            names = list(configs)
            out.write(json.dumps({"served": names}) + "\n")
    serve.shutdown()


if __name__ == "__main__":
    main()
