"""A generation has its code: what was deployed is served, whatever happens to the files since."""

import json
import os
import re
import shutil
import sqlite3
import subprocess

import numpy as np
import pytest

from support import paths, wait
from support.process import procs
from support.protocol.http import Unix

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
    assert code == 0 and "1 unchanged" in out, out + err
    assert project.pids() == before
    project.times(3)
    code, out, err = project.cli("deploy", project.yaml, "--dry-run")
    assert code == 0 and "restart      code" in out and "1 changed" in out, out + err
    code, out, err = project.cli("deploy", project.yaml)
    assert code == 0 and "restart      code" in out and "1 changed" in out, out + err
    assert answers(client) == {6} and not project.pids() & before
    project.times(2)
    assert project.cli("deploy", project.yaml)[0] == 0
    assert answers(client) == {4}


def test_where_it_runs(project, connect):
    """The code is the copy; what is read and written by a relative path is in the folder that the user named."""
    project.start()
    said = ask(connect(project.server))
    copy = project.state / "code" / project.copies()[0]
    assert (said["file"], said["cwd"]) == (str(copy / "app.py"), str(project.folder))
    assert project.deployment()["code"] == f"sha256:{copy.name}"
    assert project.folder.joinpath("factor.py").stat().st_mode & 0o777 == 0o644  # the original is as it was
    assert (project.state / "code").stat().st_mode & 0o777 == 0o700 and copy.stat().st_mode & 0o777 == 0o700
    assert not list(project.folder.rglob("__pycache__"))


@pytest.mark.long
def test_without_a_working_dir(project, connect):
    """What the module imports from beside is copied, and what it names with its __file__."""
    project.write("unrelated.py", "raise OSError\n")
    project.start(project.spec(working_dir=None), cwd=project.folder)
    client = connect(project.server)
    assert ask(client)["cwd"] == str(project.folder)
    copy = project.state / "code" / project.copies()[0]
    assert sorted(n for n in os.listdir(copy) if n != "__pycache__") == ["app.py", "factor.py", "unit.txt"]
    project.write("unrelated.py", "")
    assert [c["step"] for c in project.put(project.spec(working_dir=None))["changes"]] == ["unchanged"]
    project.times(3)
    project.write("unit.txt", "km")
    assert project.put(project.spec(working_dir=None))["changes"][0]["keys"] == "code"
    project.healthy()
    assert answers(client) == {6} and ask(client)["unit"] == "km"
    file = project.spec(working_dir=None, import_path=str(project.folder / "app.py"))
    assert project.put(file)["changes"][0]["keys"] == "import_path,code"
    project.healthy()
    assert answers(client) == {6}


@pytest.mark.parametrize("file", ["app:app", "../shop/./app.py:app", "../other/prog.py"])
def test_entries_of_the_path_are_pinned(project, connect, file):
    """PYTHONPATH=/proj/src: what it finds is in the copy, too, wherever the deployment works."""
    folder = project.folder.parent / "other" if "other" in file else project.folder
    project.write(f"../{folder.name}/src/mypkg.py", "FACTOR = 2\n")
    for name in ("app.py", "../other/prog.py"):
        project.write(name, APP.replace("import factor", "import mypkg as factor"))
        project.write(os.path.join(os.path.dirname(name), "unit.txt"), "m")
    path = f"{paths.SDK}:{folder / 'src'}"
    spec = project.spec(import_path=file, env={"PYTHONPATH": path})
    spec["applications"][0]["deployments"][0]["working_dir"] = str(project.folder.parent)
    project.start(spec)
    client = connect(project.server)
    assert answers(client) == {4} and ask(client)["cwd"] == str(project.folder.parent)
    project.write(f"../{folder.name}/src/mypkg.py", "FACTOR = 3\n")
    for pid in sorted(project.pids()):
        procs.kill(pid)
        wait.until(lambda pid=pid: pid not in project.pids() and len(project.pids()) == 2, project.server.log.text)
        project.healthy()
    assert answers(client) == {4}
    project.put(spec)
    project.healthy()
    assert answers(client) == {6}
    code = project.deployment()["code"]
    project.write(f"../{folder.name}/src/mypkg.py", "FACTOR = 4\n")
    spec["applications"][0]["name"] = "again"  # what it declares is asked of the copy
    spec["applications"][0]["code"] = code
    project.put(spec)
    project.healthy(app="again")
    assert answers(client) == {6}


def test_live_code_is_what_it_was(project, connect):
    project.start(project.spec(code="live"))
    client = connect(project.server)
    assert project.copies() == [] and ask(client)["file"] == str(project.folder / "app.py")
    assert project.deployment()["code"] == "live" and project.deployment()["message"] == "code: live"
    assert "main: HEALTHY, code: live" in project.cli("status")[1]
    project.times(3)
    for pid in sorted(project.pids()):
        procs.kill(pid)
    wait.until(lambda: project.deployment()["status"] == "HEALTHY" and answers(client) == {6}, project.server.log.text)
    project.put(project.spec())
    project.healthy()
    assert len(project.copies()) == 1 and project.deployment()["message"] == ""


@pytest.mark.long
def test_a_start_with_other_code_is_a_change(project, connect, serve):
    server = project.start()
    server.stop()
    server = project.start()
    assert server.log.find("generation 1, which is .*, as it is stored")
    server.stop()
    project.times(3)
    server = project.start()
    assert server.log.find("as generation 2, which replaces generation 1")
    assert answers(connect(server)) == {6}
    project.yaml.unlink()
    server.stop()
    shutil.rmtree(project.folder)
    again = serve(None, "--state-dir", project.state, *QUICK, verb="start")  # without a file, and without the code's
    project.server = again
    project.healthy()
    assert answers(connect(again)) == {6}


@pytest.mark.long
def test_copies_are_kept_while_they_are_needed(project, connect):
    half, old = project.state / "code" / ".tmp-half", project.state / "code" / ("0" * 64)
    for folder in (half, old):
        folder.mkdir(parents=True)
        (folder / "app.py").write_text("raise OSError\n")
    project.state.chmod(0o700)
    project.start()
    wait.until(lambda: not half.exists() and not old.exists(), lambda: os.listdir(project.state / "code"))
    (one,) = project.copies()
    seen = [one]
    for n in (3, 4):
        project.times(n)
        project.put(project.spec())
        project.healthy()
        (new,) = set(project.copies()) - set(seen)
        seen.append(new)
    # the newest, and what a rollback goes to
    wait.until(lambda: os.listdir(project.state / "code") and set(os.listdir(project.state / "code")) == set(seen[1:]),
               lambda: os.listdir(project.state / "code"))
    project.api("POST", "/api/v1/applications/shop/deployments/main/rollback")
    project.healthy()
    assert answers(connect(project.server)) == {6}
    project.times(9)
    assert project.put({"applications": [*project.spec()["applications"], {"name": "bad", "import_path": "nothing.such"}]}, 400)
    wait.until(lambda: set(os.listdir(project.state / "code")) == set(seen[1:]), lambda: os.listdir(project.state / "code"))


def test_one_folder_has_one_copy(project, connect):
    project.write("other.py", APP.replace('"times", deployment="main"', '"more", deployment="more"'))
    both = project.spec()
    both["applications"].append({"name": "more", "import_path": "other.py", "working_dir": str(project.folder)})
    project.start(both)
    project.healthy(1, app="more", name="more")
    (copy,) = project.copies()
    client = connect(project.server)
    assert {ask(client, m)["file"] for m in ("times", "more")} == \
        {str(project.state / "code" / copy / f) for f in ("app.py", "other.py")}
    assert project.deployment("more", "more")["code"] == f"sha256:{copy}/other.py"


@pytest.mark.long
def test_code_is_bounded(project):
    """What is above a bound is refused before anything changes, and the server's options say where it is."""
    size = sum(p.stat().st_size for p in project.folder.iterdir() if p.is_file())
    project.start(None, "--max-code-bytes", size, "--max-code-files", "3")
    before = project.pids()
    project.write("unit.txt", "mm")
    why = project.put(project.spec(), 400)
    assert "has more than" in why and "--max-code-bytes" in why and "code_exclude" in why and "code: live" in why, why
    assert "application 'shop' cannot be loaded" in why and project.pids() == before
    assert project.put(project.spec(code_exclude=["unit.txt"]))["changes"][0]["keys"] == "code,code_exclude"
    project.healthy()
    project.write("unit.txt", "k")
    project.write("more.txt", "")
    assert "has more than 3 files (--max-code-files)" in project.put(project.spec(), 400)
    os.unlink(project.folder / "more.txt")
    os.mkfifo(project.folder / "pipe")
    assert "shop/pipe is neither a file nor a folder" in project.put(project.spec(code_exclude=["*.txt"]), 400)
    os.unlink(project.folder / "pipe")
    project.put(project.spec())
    project.healthy()


def test_what_config_prints_means_the_same_code(project, connect):
    project.start()
    (first,) = project.copies()
    config = project.api("GET", "/api/serve/config")[1]
    assert f"sha256:{first}" in config
    project.times(3)
    project.put(project.spec())
    project.healthy()
    project.yaml.write_text(config)
    code, out, err = project.cli("deploy", project.yaml)
    assert code == 0 and answers(connect(project.server)) == {4}, out + err
    project.yaml.write_text(config.replace(first, "f" * 64))
    code, out, err = project.cli("deploy", project.yaml)
    assert code == 78 and "the copy of its code is missing" in err, err


@pytest.mark.parametrize("file, good", [
    ("", True), ("/app.py", True), ("/a b/..x/.y/...py", True), ("/a/-b.py", True), ("/../../x/app.py", False), ("/a/..", False),
    ("/./x.py", False), ("//abs/app.py", False), ("/a//x.py", False), ("/a/", False), ("/", False), ("/-x.py", False)])
def test_a_file_in_a_copy_stays_in_it(file, good, tmp_path):
    """For `anyserve check` and for editors, which have the schema."""
    code = "sha256:" + "a" * 64 + file
    schema = json.loads(subprocess.run([paths.BINARY, "schema"], capture_output=True, text=True, check=True).stdout)
    (pattern,) = {p for p in patterns(schema) if "sha256" in p}
    assert bool(re.search(pattern, code)) == good
    path = tmp_path / "anyserve.yaml"
    path.write_text(json.dumps({"applications": [{"import_path": "app:app", "code": code}]}))
    done = subprocess.run([paths.BINARY, "check", path], capture_output=True, text=True, timeout=60)
    assert ("code: the text" in done.stdout + done.stderr) != good, done.stderr


def patterns(value):
    if isinstance(value, dict):
        yield from ([value["pattern"]] if isinstance(value.get("pattern"), str) else [])
        value = list(value.values())
    for v in value if isinstance(value, list) else []:
        yield from patterns(v)


def test_a_copy_that_is_named_and_gone(project):
    """It is known what its code declares, and it is refused all the same, before anything changes."""
    project.start()
    project.put(project.spec(code=project.deployment()["code"]))  # what it declares is asked, and remembered
    project.healthy()
    before = project.pids()
    shutil.rmtree(project.state / "code")
    why = project.put(project.spec(code=project.deployment()["code"]), 400)
    assert "the copy of its code is missing" in why and "shop" in why, why
    assert project.pids() == before


def test_a_copy_that_somebody_removed(project):
    project.start(None, "--restart-backoff-max", "100ms")  # a replica that is given up tries again soon
    shutil.rmtree(project.state / "code")
    pid = min(project.pids())
    procs.kill(pid)
    wait.until(lambda: any("the copy of its code is missing" in r["message"] for r in project.deployment()["replicas"]),
               lambda: project.api("GET", APPLICATIONS))
    project.put(project.spec())
    wait.until(lambda: len(project.copies()) == 1, project.server.log.text)
    project.server.expected.append("the copy of its code is missing")
    project.healthy()


@pytest.mark.long
def test_a_state_that_knew_no_copies(project, connect):
    """As the version before this one left it: what is served there is served from its files, until the next deploy."""
    server = project.start(project.spec(code="live"))
    server.stop()
    with sqlite3.connect(project.state / "state.db") as db:
        db.execute("UPDATE generation SET spec = replace(spec, '\"code\":\"live\",', '')")
        db.execute("UPDATE generation SET spec = replace(spec, '\"code\": \"live\", ', '')")
        assert "code" not in db.execute("SELECT spec FROM generation").fetchone()[0]
    db.close()
    project.server = project._serve(None, "--state-dir", project.state, *QUICK, verb="start")
    project.healthy()
    client = connect(project.server)
    assert ask(client)["file"] == str(project.folder / "app.py") and project.deployment()["message"] == ""
    assert project.put(project.spec())["changes"][0]["keys"] == "code"
    project.healthy()
    project.times(3)
    assert answers(client) == {4}
    assert project.api("POST", "/api/v1/applications/shop/deployments/main/rollback")[0] == 200
    project.healthy()
    assert answers(client) == {6}


@pytest.mark.parametrize("who", ["controller", "dispatcher"])
def test_one_of_ours_dies_while_code_is_read(project, connect, tmp_path, who):
    flag = tmp_path / "go"
    project.start()
    (first,) = project.copies()
    project.write("factor.py", f"import os, time\nwhile not os.path.exists({str(flag)!r}):\n    time.sleep(0.01)\nFACTOR = 3\n")
    asking = subprocess.Popen([paths.BINARY, "deploy", project.yaml, "--runtime-dir", project.server.runtime],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    wait.until(lambda: any("--describe" in procs.command(p) for p in project.server.family()), project.server.log.text)
    assert len(project.copies()) == 2
    pid = getattr(project.server, who)
    procs.kill(pid)
    wait.until(lambda: getattr(project.server, who) not in (None, pid), project.server.log.text)
    flag.touch()
    said, _ = asking.communicate(timeout=120)
    assert (asking.returncode == 0) == (who == "dispatcher"), said
    project.healthy()
    if who == "controller":
        wait.until(lambda: os.listdir(project.state / "code") == [first], lambda: os.listdir(project.state / "code"))
        project.put(project.spec())
        project.healthy()
    assert answers(connect(project.server)) == {6}


@pytest.mark.long
def test_a_server_without_a_state_keeps_copies_as_long_as_it_lives(project, connect):
    project.server = server = project._serve(project.folder / "app.py")
    client = connect(server)
    assert ask(client)["file"] == str(project.folder / "app.py")
    project.times(3)
    project.put(project.spec())
    project.healthy()
    assert answers(client) == {6} and ask(client)["file"].startswith(server.folder_of_port() + "/code/")
    folder = server.folder_of_port()
    server.stop()
    assert not os.path.exists(folder)


def test_what_failed_stays_failed_until_someone_says_so(project, connect):
    """A restart that fails: the former replicas serve on, and a mended file changes nothing by itself."""
    project.start(project.spec(code="live"), "--restart-backoff-max", "20ms")
    client = connect(project.server)
    before = project.pids()
    project.write("factor.py", "raise OSError('broken')\n")
    code, out, err = project.cli("restart", "main")
    assert code == 3 and "OSError: broken" in err, out + err
    project.times(5)
    project.healthy(status="DEPLOY_FAILED")  # there is no third replica that would try again
    assert project.pids() == before and answers(client) == {4}
    assert "OSError: broken" in project.deployment()["message"]
    code, out, err = project.cli("restart", "main")
    assert code == 0 and not project.pids() & before and answers(client) == {10}, out + err
    project.healthy()
