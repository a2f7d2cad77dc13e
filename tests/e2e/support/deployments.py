"""Applications of a deployment file, deployed and looked at over the control API."""

import json
import os
import subprocess

from . import paths, wait
from .protocol.http import Unix

APPLICATIONS = "/api/serve/applications/"
QUICK = ("--update-min-ready", "200ms", "--restart-backoff", "10ms")


def api(server, method, path, body=None):
    """(status, JSON or text) of one request to control.sock."""
    c = Unix(os.path.join(server.folder_of_port(), "control.sock"))
    try:
        c.request(method, path, body if isinstance(body, (str, type(None))) else json.dumps(body))
        r = c.getresponse()
        text = r.read().decode()
        return r.status, json.loads(text) if "json" in r.headers["content-type"] else text
    finally:
        c.close()


def put(server, spec):
    """The changes of a deploy that is taken, {"application/deployment": (step, class)}."""
    status, answer = api(server, "PUT", APPLICATIONS, spec)
    assert status == 200, answer
    return {f"{c['application']}/{c['deployment']}": (c["step"], c["class"]) for c in answer["changes"]}


def deployment(server, name, app="shop"):
    return api(server, "GET", APPLICATIONS)[1]["applications"][app]["deployments"][name]


def causes(server):
    return [g["cause"] for g in api(server, "GET", "/api/serve/history")[1]["generations"]]


def healthy(server, name="main", replicas=2, app="shop", generation=None):
    """Waits until it is as asked for."""
    def is_so():
        d = deployment(server, name, app)
        return d["status"] == "HEALTHY" and [r["state"] for r in d["replicas"]] == ["RUNNING"] * replicas \
            and (generation is None or d["generation"] == generation)
    wait.until(is_so, lambda: api(server, "GET", APPLICATIONS))


def failed(server, name="main"):
    """Waits until an update was taken back and nothing of it is left; why."""
    def is_so():
        d = deployment(server, name)
        return d["status"] == "DEPLOY_FAILED" and [r["state"] for r in d["replicas"]] == ["RUNNING"] * 2
    wait.until(is_so, lambda: api(server, "GET", APPLICATIONS))
    return deployment(server, name)["message"]


def spec(**more):
    """`main` with two replicas in the application `shop`, `side` in `extra`."""
    return {"applications": [
        {"name": "shop", "import_path": "deployed:app", "working_dir": str(paths.APPS),
         "deployments": [{"name": "main", "num_replicas": 2, "user_config": {"top": 1}, **more}]},
        {"name": "extra", "import_path": "deployed:app", "working_dir": str(paths.APPS), "env": {"SIDE": "1"}}]}


def procs_env(pid):
    with open(f"/proc/{pid}/environ", "rb") as f:
        return dict(e.decode().split("=", 1) for e in f.read().split(b"\0") if b"=" in e)


def run(*args, **kwargs):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(paths.SDK), str(paths.APPS)])}
    return subprocess.run([str(paths.BINARY), *map(str, args)], capture_output=True, text=True, env=env,
                          timeout=wait.SECONDS, **kwargs)
