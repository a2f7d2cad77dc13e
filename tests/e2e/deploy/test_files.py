"""What deploy/ has fits the command, the options, and each other: the image, the pod, the unit."""

import configparser
import json
import os
import re
import shlex
import shutil
import subprocess
import sys

import numpy as np
import pytest
import yaml

from support import paths, wait
from support.process import pod, users

DEPLOY = paths.ROOT / "deploy"
UNIT = DEPLOY / "systemd/anyserve.service"
WORST_EXPOSURE = 30  # tenths; the unit's is 2.7 with systemd 252, and was 8.6 before it had a sandbox
HAS_SYSTEMD = shutil.which("systemd-analyze")
needs_systemd = pytest.mark.skipif(not HAS_SYSTEMD, reason="systemd-analyze is not installed (package systemd)")


def instructions():
    """(name, text) of the Containerfile, lines joined; comments left out."""
    text = "\n".join(line for line in (DEPLOY / "container/Containerfile").read_text().splitlines() if not line.startswith("#"))
    lines = text.replace("\\\n", " ").splitlines()
    return [tuple(line.split(None, 1)) for line in lines if line.strip()]


def of_image(name):
    """Its last one: that of the image, not of the stage which builds the wheel."""
    return [text for key, text in instructions() if key == name][-1]


def manifest():
    return {d["kind"]: d for d in yaml.safe_load_all((DEPLOY / "kubernetes/anyserve.yaml").read_text())}


def pod_spec():
    return manifest()["Deployment"]["spec"]["template"]["spec"]


def container():
    (only,) = pod_spec()["containers"]
    return only


def unit():
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str
    parser.read_string(UNIT.read_text())
    return parser["Service"]


def seconds(option, args=()):
    """Its value there, else its default."""
    given = [a.partition("=")[2] for a in args if a.startswith(option + "=")]
    row = re.search(rf"^\| `{option}` \| `([^`]*)`", (paths.ROOT / "docs/guide/options.md").read_text(), re.M)
    return int((given or [row[1]])[0].removesuffix("s"))


def try_command(words, env):
    done = subprocess.run([paths.BINARY, *words, "--python", sys.executable], capture_output=True, text=True, check=False,
                          timeout=wait.SECONDS, env={**os.environ, "PYTHONPATH": str(paths.SDK), **env})  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def check_command(words, folder):
    """The program knows its options: what it misses is the file, which is not here. (2: a wrong command line.) In a network of
    its own, where the ports are free."""
    verb, *rest = words
    if verb == "start":
        rest.insert(0, "/nowhere.yaml")
    env = {"XDG_RUNTIME_DIR": str(folder), "XDG_STATE_HOME": str(folder)}
    code, said = users.in_child(lambda: users.enter_network("10.9.8.7"), try_command, [verb, *rest], env)
    assert code == 66, f"{words}: {code}\n{said}"


def test_command_lines(tmp_path):
    check_command(container()["args"], tmp_path)
    check_command(json.loads(of_image("CMD")), tmp_path)
    # the file that is to be served is not there either
    check_command(shlex.split(unit()["ExecStart"])[1:], tmp_path)
    comments = re.findall(r"^#\s+(?:ExecStart=|CMD )(.*)$", UNIT.read_text() + (DEPLOY / "container/Containerfile").read_text(), re.M)
    assert len(comments) == 2
    for line in comments:
        check_command(json.loads(line) if line.startswith("[") else shlex.split(line)[1:], tmp_path)


class TestImage:
    def test_process_1_is_the_program(self):
        assert json.loads(of_image("ENTRYPOINT")) == ["anyserve"]  # in this form there is no shell, which would get the signals
        assert of_image("STOPSIGNAL") == "SIGTERM"
        assert of_image("USER") == f"{pod.UID}:{pod.UID}" and f"--uid {pod.UID} " in of_image("RUN")

    def test_environment(self):
        given = dict(word.split("=", 1) for word in shlex.split(of_image("ENV")))
        for name in set(given) - {"PATH"}:
            assert pod.ENV[name] == given[name], name  # test_pod runs with it
        assert json.loads(of_image("VOLUME")) == [given["XDG_STATE_HOME"]]

    def test_ports(self):
        assert of_image("EXPOSE").split() == [str(p["containerPort"]) for p in container()["ports"]]

    def test_health_check(self, serve):
        command = json.loads(of_image("HEALTHCHECK").partition("CMD ")[2])
        server = serve("echo.py")
        at = ["--port", str(server.port), "--runtime-dir", server.runtime]
        assert subprocess.run([paths.BINARY, *command[1:], *at], capture_output=True, timeout=wait.SECONDS).returncode == 0
        server.stop()
        assert subprocess.run([paths.BINARY, *command[1:], *at], capture_output=True, timeout=wait.SECONDS).returncode == 1

    def test_context(self):
        """The builder gets what is committed and .git, and nothing that this checkout has besides."""
        def lines(path):
            return [line for line in path.read_text().splitlines() if line and not line.startswith("#")]

        kept_out = {line.removeprefix("**/") for line in lines(paths.ROOT / ".dockerignore")}
        assert kept_out >= {*lines(paths.ROOT / ".gitignore"), "/.venv/"} and not any(".git" in line for line in kept_out)
        committed = subprocess.run(["git", "ls-files", "-ci", "--exclude-from=.dockerignore"], cwd=paths.ROOT, check=True,
                                   capture_output=True, text=True)  # fmt: skip
        assert committed.stdout == ""

    def test_packages_are_those_of_the_guide(self):
        build = next(text for key, text in instructions() if key == "RUN")
        listed = set(re.search(r"--no-install-recommends(.*?)&&", build, re.S)[1].split()) - {"ca-certificates", "git"}
        guide = (paths.ROOT / "docs/guide/install.md").read_text()
        assert listed == set(re.search(r"sudo apt-get install (.*?)\npip", guide, re.S)[1].replace("\\\n", " ").split())


class TestPod:
    def test_nothing_more_than_needed(self):
        spec, its = pod_spec(), container()["securityContext"]
        assert spec["securityContext"]["runAsNonRoot"] and spec["securityContext"]["runAsUser"] == pod.UID
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"} and not spec["automountServiceAccountToken"]
        assert its["readOnlyRootFilesystem"] and not its["allowPrivilegeEscalation"] and its["capabilities"] == {"drop": ["ALL"]}

    def test_it_may_end(self):
        args = container()["args"]
        needed = sum(seconds(o, args) for o in ("--shutdown-delay", "--drain-timeout", "--stop-timeout")) + 4
        assert pod_spec()["terminationGracePeriodSeconds"] >= needed

    def test_names_fit(self):
        ports = {p["name"]: p["containerPort"] for p in container()["ports"]}
        assert {container()[k]["httpGet"]["port"] for k in ("startupProbe", "livenessProbe", "readinessProbe")} == {"clients"}
        template = manifest()["Deployment"]["spec"]["template"]
        assert int(template["metadata"]["annotations"]["prometheus.io/port"]) == ports["status"]
        assert f"--status-port={ports['status']}" in container()["args"]
        for labels in manifest()["Service"]["spec"]["selector"], manifest()["Deployment"]["spec"]["selector"]["matchLabels"]:
            assert labels.items() <= template["metadata"]["labels"].items()
        assert {p["targetPort"] for p in manifest()["Service"]["spec"]["ports"]} <= set(ports)
        mounts = {m["name"]: m["mountPath"] for m in container()["volumeMounts"]}
        assert set(mounts) == {v["name"] for v in pod_spec()["volumes"]}
        assert {*pod.FOLDERS, "/dev/shm"} <= set(mounts.values())
        (name,) = [v["configMap"]["name"] for v in pod_spec()["volumes"] if "configMap" in v]
        assert name == manifest()["ConfigMap"]["metadata"]["name"]

    def test_keys(self):
        """As comments: the option, the mount and the Secret fit each other and what the server accepts."""
        given = (DEPLOY / "kubernetes/anyserve.yaml").read_text()
        text = re.sub(r"^( +)# (- --api-keys|- \{name: keys|- name: keys|  secret:)", r"\1\2", given, flags=re.M)
        spec = next(d for d in yaml.safe_load_all(text) if d["kind"] == "Deployment")["spec"]["template"]["spec"]
        (only,) = spec["containers"]
        (file,) = [a.removeprefix("--api-keys=") for a in only["args"] if a.startswith("--api-keys=")]
        (mount,) = [m for m in only["volumeMounts"] if m["name"] == "keys"]
        (volume,) = [v for v in spec["volumes"] if v["name"] == "keys"]
        assert os.path.dirname(file) == mount["mountPath"] and mount["readOnly"] and "subPath" not in mount
        command = f"kubectl create secret generic {volume['secret']['secretName']} --from-file={os.path.basename(file)}"
        assert command in given and command in (paths.ROOT / "docs/guide/keys.md").read_text()
        assert volume["secret"]["defaultMode"] == 0o440  # test_pod has such a file
        assert spec["securityContext"]["fsGroup"] == spec["securityContext"]["runAsGroup"] == pod.UID

    def test_its_models_are_served(self, serve, connect):
        server = serve("app.py", source=manifest()["ConfigMap"]["data"]["app.py"])
        assert connect(server).infer("double", {"x": np.float32([1, 2.5])})["y"].tolist() == [2, 5]


class TestUnit:
    @pytest.fixture
    def here(self, tmp_path):
        """The unit, with a program that is here."""
        path = tmp_path / UNIT.name
        path.write_text(UNIT.read_text().replace("/usr/local/bin/anyserve", str(paths.BINARY)))
        return path

    def analyze(self, *args):
        return subprocess.run(["systemd-analyze", *args], capture_output=True, text=True, timeout=wait.SECONDS, check=False)

    @needs_systemd
    def test_systemd_understands_it(self, here):
        done = self.analyze("verify", here)
        assert done.returncode == 0 and "Unknown" not in done.stderr and here.name not in done.stderr, done.stderr

    @needs_systemd
    def test_exposure(self, here):
        done = self.analyze("security", "--offline=true", f"--threshold={WORST_EXPOSURE}", "--no-pager", here)
        assert done.returncode == 0, done.stdout + done.stderr

    def test_folders_are_those_that_it_may_write_to(self):
        assert unit()["ProtectSystem"] == "strict"
        assert unit()["RuntimeDirectory"] == unit()["StateDirectory"] == "anyserve"
        assert unit()["Environment"] == "XDG_RUNTIME_DIR=/run"
        assert "--state-dir /var/lib/anyserve " in UNIT.read_text()
