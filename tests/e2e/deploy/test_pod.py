"""A server in a container: process 1 of namespaces of its own, not root, a read-only root, with the manifest's command line."""

import errno
import http.client
import os
import signal
import sys

import numpy as np
import pytest
import yaml

from support import paths, wait
from support.process import pod
from support.protocol import oip, prometheus

pytestmark = [pytest.mark.core, pytest.mark.skipif(bool(pod.can_be_made()), reason=pod.can_be_made())]
def container():
    documents = yaml.safe_load_all((paths.ROOT / "deploy/kubernetes/anyserve.yaml").read_text())
    deployment = next(d for d in documents if d["kind"] == "Deployment")
    return deployment["spec"]["template"]["spec"]["containers"][0]


def ask(address, method, path, host="anyserve.models.svc.cluster.local"):
    connection = http.client.HTTPConnection(*address, timeout=oip.SECONDS)
    connection.request(method, path, headers={"Host": host})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, body


@pytest.fixture
def start():
    """start(*options) → a pod that serves in_pod.py as the manifest says, on one worker."""
    pods = []

    def start(*options):
        verb, _, *given = container()["args"]
        # nobody has to be waited for here: the pod is in no Service
        given = [o for o in given if not o.startswith("--shutdown-delay")]
        pods.append(pod.Pod(verb, paths.APPS / "in_pod.py", *given, "--python", sys.executable, *options))
        return pods[-1]

    yield start
    for p in pods:
        p.kill()


def client_of(p):
    return oip.Client(f"{p.host}:8000")


def test_probes_and_metrics_from_outside(start):
    p = start("--metrics-on-client-port")
    described = container()
    ports = {port["name"]: port["containerPort"] for port in described["ports"]}
    for probe in "startupProbe", "livenessProbe", "readinessProbe":
        request = described[probe]["httpGet"]
        for method in "GET", "HEAD":
            assert ask((p.host, ports[request["port"]]), method, request["path"])[0] == 200, (probe, method)
    for port in 8000, 8002:
        status, body = ask((p.host, port), "GET", "/metrics")
        assert status == 200 and prometheus.total(prometheus.parse(body.decode()), "anyserve_replicas_ready") == 1
        assert ask((p.host, port), "HEAD", "/metrics") == (200, b"")
    assert ask((p.host, 8002), "GET", "/-/healthz", "10.1.2.3:8002")[0] == 200
    p.signal(signal.SIGTERM)
    p.ended()


def test_what_a_worker_may(start):
    p = start()
    with client_of(p) as client:
        for folder, failed in ("/srv", errno.EROFS), ("/tmp", errno.EROFS), ("/etc", errno.EROFS), ("/run/anyserve", 0), ("/dev/shm", 0):
            seen = client.infer("seen", {"path": np.array([folder.encode()], object)})
            # a folder of root's is refused for its mode before that
            assert seen["errno"][0] in ({failed, errno.EACCES} if failed else {0}), folder
            assert seen["uid"][0] == pod.UID and seen["no_new_privileges"][0] == 1 and not seen["capabilities"].any()
    assert {1} < set(p.processes().values()) and p.processes()[p.pid] == 1
    assert "in_pod" in p.run("status")
    p.signal(signal.SIGTERM)
    p.ended()


def test_a_secret(start):
    """As a kubelet leaves it: links through ..data, root's and fsGroup's, mode 0440. With any right for others it is refused."""
    p = start()
    folder = p.file("/run/anyserve/secret")
    (folder / "..1").mkdir(parents=True)
    file = folder / "..1/keys"
    file.write_text(f"name=alice sha256={'0' * 63}1\n")
    os.chown(file, 0, pod.OUTSIDE)
    (folder / "..data").symlink_to("..1")
    (folder / "keys").symlink_to("..data/keys")
    file.chmod(0o440)
    assert "alice" in p.run("keys", "list", "--file", "/run/anyserve/secret/keys")
    for mode, group in (0o444, pod.OUTSIDE), (0o460, pod.OUTSIDE), (0o440, 0):
        os.chown(file, 0, group)
        file.chmod(mode)
        refused = p.begin("keys", "list", "--file", "/run/anyserve/secret/keys")
        said, _ = refused.communicate(timeout=wait.SECONDS)
        assert refused.returncode == 78 and (f"(mode {mode:04o})" in said or "Permission denied" in said)
    p.signal(signal.SIGTERM)
    p.ended()


@pytest.mark.parametrize("crash", [False, True])
def test_process_1_reaps_what_workers_leave_behind(start, crash):
    """Also while a child of its own ends at the same moment, which is not to be taken for an orphan, nor hide one."""
    p = start()
    with client_of(p) as client:
        for _ in range(5 if crash else 1):
            left = client.infer("leave", {"n": np.array([20])})
            assert set(left["parents"].tolist()) == {1}
            pids = set(left["pids"].tolist())
            assert pids <= set(p.processes().values())
            asked = client.begin("end", {"pids": left["pids"], "crash": np.array([crash])})
            if crash:
                with pytest.raises(oip.grpc.RpcError):
                    asked.result()
            else:
                asked.result()
            wait.until(lambda: not pids & set(p.processes().values()), lambda: f"not reaped: {p.processes()}")
            wait.until(lambda: ask((p.host, 8000), "GET", "/v2/health/ready")[0] == 200, "its successor")
    p.signal(signal.SIGTERM)
    p.ended()


@pytest.mark.parametrize("how", ["SIGTERM", "preStop"])
def test_the_end_drains(start, how):
    p = start()
    with client_of(p) as client:
        call = client.begin("wait", {"n": np.array([7])})
        wait.until(p.file("/run/anyserve/cue").exists, "the handler to wait")
        if how == "SIGTERM":
            p.signal(signal.SIGTERM)
            hook = None
        else:
            hook = p.begin(*container()["lifecycle"]["preStop"]["exec"]["command"][1:])
        p.log.wait("event=drain signal=15")
        with open(p.file("/run/anyserve/cue"), "w"):
            pass
        assert oip.Answer(call.result())["n"].tolist() == [7]
    if hook:
        # it ends with process 1, as every process of the namespace does: by itself, or by SIGKILL
        assert hook.wait(wait.SECONDS) in (0, -signal.SIGKILL, 128 + signal.SIGKILL)
    p.ended()
    assert "event=end_at_once" not in p.log.text()


def test_nothing_can_be_written(start):
    """Without its two folders it says which one is missing, and ends."""
    p = pod.Pod("run", paths.APPS / "in_pod.py", "--runtime-dir", "/srv/run", "--python", sys.executable, ready="/srv/run")
    p.ended(code=p.process.wait(wait.SECONDS))
    assert "Read-only file system" in p.log.text() and p.process.returncode == 78
