"""A generation has its code: what was deployed is served, whatever happens to the files since."""

import json
import os
import shutil
import subprocess

import numpy as np
import pytest

from support import paths, procs, wait
from support.http import Unix

APPLICATIONS = "/api/serve/applications/"
QUICK = ("--update-min-ready", "200ms", "--restart-backoff", "10ms", "--update-failures", "2")
APP = """
import os
from anyserve import AnyServe
import factor
app = AnyServe()
HERE = os.path.dirname(os.path.abspath(__file__))

@app.model("times", deployment="main")
def times(x):
    with open(os.path.join(HERE, "unit.txt")) as f:
        return {"y": x * factor.FACTOR, "pid": os.getpid(), "unit": f.read(), "file": __file__, "cwd": os.getcwd()}
"""
TWO = np.array([2.0])


class Project:
    """A folder with an application, and a server that serves it."""

    def __init__(self, folder, state, serve):
        self.folder, self.state, self._serve = folder, state, serve
        self.yaml = folder.parent / "anyserve.yaml"
        self.server = None
        folder.mkdir()
        self.write("app.py", APP)
        self.write("unit.txt", "m")
        self.times(2)

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def times(self, n):
        self.write("factor.py", f"FACTOR = {n}\n")

    def spec(self, version=None, **more):
        d = {"name": "main", "num_replicas": 2}
        if version:
            d["version"] = version
        app = {"name": "shop", "import_path": "app:app", "working_dir": str(self.folder), "deployments": [d], **more}
        return {"applications": [{k: v for k, v in app.items() if v is not None}]}

    def start(self, spec=None, *options, **kwargs):
        self.yaml.write_text(json.dumps(spec or self.spec()))
        self.server = self._serve(self.yaml, "--state-dir", self.state, *QUICK, *options, verb="start", **kwargs)
        self.healthy()
        return self.server

    def api(self, method, path, body=None):
        c = Unix(os.path.join(self.server.folder_of_port(), "control.sock"))
        try:
            c.request(method, path, body if body is None else json.dumps(body))
            r = c.getresponse()
            text = r.read().decode()
            return r.status, json.loads(text) if "json" in r.headers["content-type"] else text
        finally:
            c.close()

    def put(self, spec, status=200):
        got, answer = self.api("PUT", APPLICATIONS, spec)
        assert got == status, answer
        return answer if status == 200 else answer["error"]

    def deployment(self, app="shop", name="main"):
        return self.api("GET", APPLICATIONS)[1]["applications"][app]["deployments"][name]

    def pids(self):
        return {r["pid"] for r in self.deployment()["replicas"]}

    def healthy(self, replicas=2, status="HEALTHY", **where):
        def is_so():
            d = self.deployment(**where)
            return d["status"] == status and [r["state"] for r in d["replicas"]] == ["RUNNING"] * replicas
        wait.until(is_so, lambda: self.api("GET", APPLICATIONS))

    def copies(self):
        """The names in the store that stand for whole copies."""
        folder = self.state / "code"
        return sorted(n for n in os.listdir(folder) if len(n) == 64) if folder.exists() else []

    def cli(self, *args):
        done = subprocess.run([paths.BINARY, *map(str, args), "--runtime-dir", self.server.runtime], text=True,
                              capture_output=True, timeout=120)
        return done.returncode, done.stdout, done.stderr


@pytest.fixture
def project(tmp_path, serve):
    return Project(tmp_path / "shop", tmp_path / "state", serve)


def ask(client, model="times"):
    got = client.infer(model, {"x": TWO}).outputs
    flat = {k: v.flat[0] for k, v in got.items()}
    return {k: v.decode() if isinstance(v, bytes) else v for k, v in flat.items()}


def answers(client, n=12):
    return {ask(client)["y"] for _ in range(n)}


def test_a_rollback_brings_the_old_code_back(project, connect):
    project.start(project.spec("v1"))
    client = connect(project.server)
    assert answers(client) == {4}
    project.times(3)
    project.put(project.spec("v2"))
    project.healthy()
    assert answers(client) == {6}
    assert project.api("POST", "/api/v1/applications/shop/deployments/main/rollback")[0] == 200
    project.healthy()
    assert answers(client) == {4}


def test_an_edit_without_a_deploy_changes_nothing(project, connect):
    project.start()
    client = connect(project.server)
    before = project.pids()
    project.times(3)
    project.write("unit.txt", "km")
    for pid in sorted(before):
        procs.kill(pid)
        wait.until(lambda pid=pid: pid not in project.pids() and len(project.pids()) == 2, project.server.log.text)
        project.healthy()
        assert answers(client) == {4} and ask(client)["unit"] == "m"
    shutil.rmtree(project.folder)  # a release folder that is gone
    for pid in sorted(project.pids()):
        procs.kill(pid)
    wait.until(lambda: not project.pids() & before and len(project.pids()) == 2, project.server.log.text)
    project.healthy()
    assert answers(client) == {4}


def test_a_failed_update_leaves_one_version_of_the_code(project, connect):
    project.start(project.spec("v1"))
    client = connect(project.server)
    project.write("factor.py", "import os\nFACTOR = 3\nif 'ANYSERVE_REPLICA' in os.environ:\n    raise OSError('broken')\n")
    project.put(project.spec("v2"))
    project.healthy(status="DEPLOY_FAILED")
    project.times(5)  # mended, and deployed by nobody
    for pid in sorted(project.pids()):
        procs.kill(pid)
        wait.until(lambda pid=pid: pid not in project.pids() and len(project.pids()) == 2, project.server.log.text)
    wait.until(lambda: [r["state"] for r in project.deployment()["replicas"]] == ["RUNNING"] * 2, project.server.status)
    assert answers(client) == {4}


def test_an_edit_alone_is_a_change(project, connect):
    project.start()
    client = connect(project.server)
    before = project.pids()
    code, out, err = project.cli("deploy", project.yaml)
    assert code == 0 and "unchanged" in out, out + err
    assert project.pids() == before
    project.times(3)
    code, out, err = project.cli("deploy", project.yaml, "--dry-run")
    assert code == 0 and "code" in out and "unchanged" not in out, out + err
    code, out, err = project.cli("deploy", project.yaml)
    assert code == 0 and "code" in out and "unchanged" not in out, out + err
    assert answers(client) == {6} and not project.pids() & before
    project.times(2)
    assert project.cli("deploy", project.yaml)[0] == 0
    assert answers(client) == {4}
