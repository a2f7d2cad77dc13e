"""serve.run from a script: which server it uses, what is deployed, and what is said of programs that cannot be served."""

import json
import os
import re

import pytest
from driver_world import World

from support import paths, wait

pytestmark = pytest.mark.core

HELLO = """
from anyserve import serve

@serve.deployment
class Hello:
    def __call__(self, name):
        return "Hello " + name
"""
STATUS = """
def show():
    for name, app in sorted(serve.status().applications.items()):
        rows = {n: (d.status.value, d.replica_states) for n, d in app.deployments.items()}
        print(name, app.status.value, rows, flush=True)
"""


@pytest.fixture
def world():
    w = World()
    yield w
    w.close()


def test_a_script_starts_a_server_which_ends_with_it(world):
    out = world.run(HELLO + STATUS + """
handle = serve.run(Hello.options(num_replicas=2).bind())
print(handle, flush=True)
show()
""")
    assert out.splitlines() == ["DeploymentHandle(deployment='Hello')", "default RUNNING {'Hello': ('HEALTHY', {'RUNNING': 2})}"]
    assert world.is_gone()  # when the program has ended, not later


def test_what_the_server_says_is_short(world):
    driver = world.start(HELLO + "serve.run(Hello.bind())\nprint('done')")
    driver.end()
    assert len(driver.lines["err"]) == 3, driver.err
    assert re.search(rf"the server is at http://127\.0\.0\.1:{world.port}, pid \d+", driver.lines["err"][0])
    assert "application 'default': 1 replica of Hello" in driver.lines["err"][1]
    assert f"application 'default' is ready at http://127.0.0.1:{world.port}/" in driver.lines["err"][2]


def test_what_replicas_print_is_shown(world):
    driver = world.start("""
from anyserve import serve

@serve.deployment
class Loud:
    def __init__(self):
        print("I am here", flush=True)

    def __call__(self):
        pass

serve.run(Loud.bind())
""")
    driver.end()
    assert "[Loud-0] I am here" in driver.err or "Loud-0] I am here" in driver.err


def test_a_second_program_uses_the_same_server(world):
    first = world.start(HELLO + STATUS + "serve.run(Hello.bind(), name='one')\nprint('up', flush=True)\ninput()\nshow()")
    first.wait_for("up")
    second = world.start(HELLO + STATUS + "serve.run(Hello.bind(), name='two', route_prefix='/two')\nshow()", name="second.py")
    assert second.end().splitlines() == ["one RUNNING {'Hello': ('HEALTHY', {'RUNNING': 1})}",
                                         "two RUNNING {'Hello': ('HEALTHY', {'RUNNING': 1})}"]  # fmt: skip
    assert "the server is at" not in second.err
    first.tell()
    assert len(first.end().splitlines()) == 3  # the second one's application stays when its program has ended
    assert world.is_gone()


def test_every_run_makes_new_replicas(world):
    out = world.run(HELLO + """
import json, urllib.request
from anyserve.serve._driver.current import driver

def pids():
    app = driver.need().client.status()["applications"]["default"]
    return [r["pid"] for r in app["deployments"]["Hello"]["replicas"] if r["state"] == "RUNNING"]

serve.run(Hello.bind())
before = pids()
serve.run(Hello.bind())
print(len(before), len(pids()), before != pids())
""")
    assert out == "1 1 True"


def test_deployments_that_are_gone_from_the_program_end(world):
    out = world.run(HELLO + STATUS + """
@serve.deployment
class Parent:
    def __init__(self, child):
        pass

serve.run(Parent.bind(Hello.bind()))
show()
serve.run(Hello.bind())
show()
""").splitlines()
    assert out[0] == "default RUNNING {'Hello': ('HEALTHY', {'RUNNING': 1}), 'Parent': ('HEALTHY', {'RUNNING': 1})}"
    assert out[1].startswith("default RUNNING {'Hello': ('HEALTHY', {'RUNNING': 1})")


def test_a_constructor_that_fails_is_shown(world):
    driver = world.start("""
from anyserve import serve

@serve.deployment
class Broken:
    def __init__(self):
        raise ValueError("no such file as weights.bin")

    def __call__(self):
        pass

try:
    serve.run(Broken.bind(), name="broken")
except RuntimeError as e:
    print(e)
print(serve.status().applications["broken"].status.value)
print(serve.status().applications["broken"].message)
""")
    out = driver.end()
    assert out.startswith("Deploying application broken failed: Failed to update the deployments ['Broken'].\n")
    assert 'raise ValueError("no such file as weights.bin")' in out  # the line of the script
    assert "ValueError: no such file as weights.bin" in out
    assert out.endswith("DEPLOY_FAILED\nFailed to update the deployments ['Broken'].")


def test_what_served_before_stays_when_a_new_version_fails(world):
    out = world.run(HELLO + STATUS + """
serve.run(Hello.bind())

@serve.deployment(name="Hello")
class Broken:
    def __init__(self):
        1 / 0

try:
    serve.run(Broken.bind())
except RuntimeError as e:
    print(str(e).splitlines()[0])
app = serve.status().applications["default"]
print(app.status.value, app.deployments["Hello"].replica_states["RUNNING"])
""")
    assert out.splitlines() == ["Deploying application default failed: Failed to update the deployments ['Hello'].",
                                "DEPLOY_FAILED 1"]  # fmt: skip


def test_what_cannot_be_pickled_is_named_before_anything_starts(world):
    driver = world.start("""
import threading
from anyserve import serve

lock = threading.Lock()

@serve.deployment
class Model:
    def __call__(self):
        with lock:
            return 1

serve.run(Model.bind(), name="shop")
""")
    driver.end(1)
    last = driver.lines["err"][-1]
    assert last == ("TypeError: Could not serialize the deployment 'Model' (application 'shop'): global lock of Model.__call__, "
                    "a lock, cannot be pickled: cannot pickle '_thread.lock' object")  # fmt: skip
    assert "the server is at" not in driver.err


def test_modules_beside_the_script_are_found(world):
    world.write("helper.py", "def greeting():\n    return 'from helper'\n")
    out = world.run("""
from anyserve import serve
import helper

@serve.deployment
class Uses:
    def __init__(self):
        assert helper.greeting() == "from helper"

    def __call__(self):
        pass

serve.run(Uses.bind())
print(serve.status().applications["default"].status.value)
""")
    assert out == "RUNNING"


def test_a_runtime_env(world):
    world.write("elsewhere/extra/__init__.py", "X = 5\n")
    world.write("data/here.txt", "there")
    out = world.run("""
import os
from anyserve import serve

@serve.deployment
class Env:
    def __init__(self):
        from extra import X
        assert X == 5
        assert os.environ["COLOUR"] == "green"
        assert open("here.txt").read() == "there"

    def __call__(self):
        pass

env = {"env_vars": {"COLOUR": "green"}, "working_dir": "data", "py_modules": ["elsewhere/extra"]}
serve.run(Env.bind(), runtime_env=env)
print(serve.status().applications["default"].status.value)
try:
    serve.run(Env.bind(), runtime_env={"pip": ["numpy"]})
except ValueError as e:
    print(e)
""")
    assert out.splitlines()[0] == "RUNNING"
    assert "'pip' is not supported" in out


def test_run_many_starts_applications_side_by_side(world):
    out = world.run(HELLO + STATUS + """
handles = serve.run_many([serve.RunTarget(Hello.bind(), name=n, route_prefix="/" + n) for n in "ab"])
print([h.app_name for h in handles])
show()
serve.delete("a")
serve.delete("a")
serve.delete("unknown")
show()
serve.shutdown()
print(serve.status().applications)
serve.shutdown()
""").splitlines()
    assert out[0] == "['a', 'b']" and out[-1] == "{}"
    assert [line.split()[:2] for line in out[1:4]] == [["a", "RUNNING"], ["b", "RUNNING"], ["b", "RUNNING"]]


def test_of_targets_with_one_name_the_last_is_served(world):
    out = world.run(HELLO + STATUS + """
@serve.deployment
def other():
    return "other"

handles = serve.run_many([serve.RunTarget(t.bind(), name="x", route_prefix=None) for t in (Hello, other)])
print([(h.app_name, h.deployment_name) for h in handles], handles[1].remote().result())
print(list(serve.status().applications["x"].deployments))
""").splitlines()
    assert out == ["[('x', 'Hello'), ('x', 'other')] other", "['other']"]


def test_a_handle_made_by_name_knows_the_backpressure_config(world):
    out = world.run("""
import asyncio
from anyserve import serve
from anyserve.serve.exceptions import BackPressureError

@serve.deployment(max_ongoing_requests=1, max_queued_requests=1, backpressure_config={"status_code": 429, "retry_after_s": 2})
class Limited:
    async def __call__(self):
        await asyncio.Event().wait()

@serve.deployment
class Caller:
    async def __call__(self, application):
        limited = serve.get_deployment_handle("Limited", application) if application != "b" else serve.get_app_handle("b")
        calls = [limited.remote() for _ in range(8)]
        tasks = [asyncio.ensure_future(self.read(c)) for c in calls]
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for c in calls:
            c.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return done.pop().result()

    async def read(self, response):
        try:
            await response
        except BackPressureError as e:
            return e.status_code, e.retry_after_s

for name in "ab":
    serve.run(Limited.bind(), name=name, route_prefix=None)
handle = serve.run(Caller.bind(), name="caller", route_prefix=None)
print(handle.remote("a").result(), handle.remote("b").result())
""")
    assert out.splitlines()[-1] == "(429, 2.0) (429, 2.0)"


def test_arguments_that_cannot_be(world):
    out = world.run(HELLO + """
def refused(*args, **kwargs):
    try:
        serve.run(*args, **kwargs)
    except Exception as e:
        print(type(e).__name__, e)

refused(Hello)
refused(Hello.bind(), name="")
refused(Hello.bind(), route_prefix="x")
refused(Hello.bind(), route_prefix="/x/")
refused(Hello.bind(), route_prefix="/{x}")
for find in (lambda: serve.get_app_handle("x"), lambda: serve.get_deployment_handle("x"), lambda: serve.delete("x")):
    try:
        find()
    except Exception as e:
        print(type(e).__name__, e)
print(serve.status().applications, serve.shutdown())
""").splitlines()
    assert out == [
        "TypeError `serve.run` expects an `Application` returned by `Deployment.bind()`.",
        "RayServeException Application name must a non-empty string.",
        "ValueError Invalid route_prefix 'x', must start with a forward slash ('/').",
        "ValueError Invalid route_prefix '/x/', may not end with a trailing '/'.",
        "ValueError Invalid route_prefix '/{x}', may not contain wildcards.",
        *["RayServeException There is no Serve instance running. serve.run() and serve.start() start one."] * 3,
        "{} None",
    ]


def test_a_prefix_belongs_to_one_application(world):
    out = world.run(HELLO + STATUS + """
serve.run(Hello.bind(), name="api", route_prefix="/api")
try:
    serve.run(Hello.bind(), name="clash", route_prefix="/api")
except Exception as e:
    print(type(e).__name__, e)
serve.run(Hello.bind(), name="api", route_prefix="/api")  # its own
show()
""").splitlines()
    assert out[0] == 'RayServeException Prefix /api is being used by application "api". Failed to deploy application "clash".'
    assert out[1:] == ["api RUNNING {'Hello': ('HEALTHY', {'RUNNING': 1})}"]


def test_handles_that_are_looked_up(world):
    out = world.run(HELLO + """
@serve.deployment
class Parent:
    def __init__(self, child):
        pass

serve.run(Parent.bind(Hello.bind()), name="shop")
print(serve.get_app_handle("shop"), serve.get_deployment_handle("Hello", "shop"))
for find in (lambda: serve.get_app_handle("x"), lambda: serve.get_deployment_handle("x", "shop"),
             lambda: serve.get_deployment_handle("Hello"), lambda: serve.get_deployment_handle("Hello", "x")):
    try:
        find()
    except Exception as e:
        print(type(e).__name__, e)
""").splitlines()
    assert out[0] == "DeploymentHandle(deployment='Parent') DeploymentHandle(deployment='Hello')"
    assert out[1] == "RayServeException Application 'x' does not exist."
    assert out[2].startswith("KeyError ") and "Deployment(name='x', app='shop') does not exist." in out[2]
    assert out[3].startswith("RayServeException Please specify an application name when getting a deployment handle outside")
    assert out[4].startswith("KeyError ")


def test_a_port_that_somebody_else_has(world):
    import socket

    with socket.create_server(("127.0.0.1", world.port)):
        driver = world.start(HELLO + "serve.run(Hello.bind())")
        driver.end(1)
    assert "RuntimeError: The server could not be started:" in driver.err and str(world.port) in driver.err


def test_http_options_choose_the_address(world):
    from support import ports

    port = ports.free()
    out = world.run(HELLO + f"""
serve.start(http_options={{"host": "127.0.0.1", "port": {port}}})
serve.run(Hello.bind())
from anyserve.serve._driver.current import driver
print(driver.server.url)
""")
    assert out == f"http://127.0.0.1:{port}"


def test_http_options_of_tls(world, tmp_path):
    """The names of Ray: a certificate, its key, and the authorities of clients."""
    from security.certificates import Authority

    authority = Authority(tmp_path)
    pair, mine = authority.server(), authority.sign("alice")
    out = world.run(HELLO + f"""
import ssl, urllib.request
serve.start(http_options={{"ssl_certfile": {str(pair.cert)!r}, "ssl_keyfile": {str(pair.key)!r}, "ssl_ca_certs": {str(authority.cert)!r}}})
serve.run(Hello.bind())
from anyserve.serve._driver.current import driver
context = ssl.create_default_context(cafile={str(authority.cert)!r})
context.load_cert_chain({str(mine.cert)!r}, {str(mine.key)!r})
print(urllib.request.urlopen(driver.server.url.replace("127.0.0.1", "localhost") + "/v2/health/live", context=context).status)
try:
    serve.start(http_options={{"ssl_certfile": "c", "ssl_keyfile": "k", "ssl_keyfile_password": "p"}})
except ValueError as e:
    print(e)
""")
    assert out.splitlines()[0] == "200" and "ssl_keyfile_password is not supported" in out


def test_a_detached_server_stays_until_shutdown(world):
    world.run(HELLO + "serve.start(detached=True)\nserve.run(Hello.bind(), name='kept')")
    assert world.processes()
    out = world.run(HELLO + STATUS + "show()\nserve.run(Hello.bind(), name='more', route_prefix='/more')\nshow()\nserve.shutdown()", name="next.py")
    assert [line.split()[0] for line in out.splitlines()] == ["kept", "kept", "more"]
    assert world.is_gone()


def test_a_server_that_others_have_started_stays(world):
    """serve.shutdown() deletes what this program has deployed there."""
    import subprocess

    server = subprocess.Popen([paths.BINARY, "run", "--port", str(world.port), "--status-port", "0", "--runtime-dir",
                               world.runtime, "--python", "python3"], env=world.env, stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    try:
        wait.until(lambda: (world.runtime / str(world.port) / "control.sock").exists(), "the server starts")
        world.run(HELLO + "serve.run(Hello.bind(), name='kept')")
        out = world.run(HELLO + STATUS + "serve.run(Hello.bind(), name='mine', route_prefix=None)\nserve.shutdown()\nshow()", name="next.py")
        assert out.startswith("kept RUNNING") and "mine" not in out
        assert server.poll() is None
    finally:
        server.terminate()
        assert server.wait(wait.SECONDS) == 0


def test_an_upload_without_a_deploy_is_bounded(world):
    out = world.run(HELLO + """
import hashlib
from anyserve.serve._driver.current import driver
serve.start()
server = driver.server
names = []
for i in range(18):
    content = b"%d" % i
    names.append(hashlib.sha256(content).hexdigest())
    server.client.upload(names[-1], content)
serve.run(Hello.bind())
import os
folder = os.path.join(server.folder, "pickles")
kept = set(os.listdir(folder))
print([n in kept for n in names].count(True), names[0] in kept, names[-1] in kept, oct(os.stat(folder).st_mode)[-3:])
serve.run(Hello.bind())
serve.run(Hello.bind())
serve.run(Hello.bind())
used = set(os.listdir(folder)) - set(names)
print(len(used) <= 3)
""").splitlines()
    count, first, last, mode = out[0].split()
    assert int(count) <= 16 and first == "False" and last == "True" and mode == "700"
    assert out[1] == "True"


def test_a_controller_that_dies_between_upload_and_deploy(world):
    """The next one knows nothing of the upload; the program uploads once more."""
    out = world.run(HELLO + STATUS + """
import os
from anyserve.serve._driver import client as _client
put, uploads = _client.ControlClient.put, []
upload = _client.ControlClient.upload

def count(self, name, content):
    uploads.append(name)
    upload(self, name, content)

def killing(self, application):
    if len(uploads) == 1:
        os.kill(self.status()["controller_info"]["pid"], 9)
        folder = os.path.join(os.path.dirname(self.path), "pickles")
        for name in os.listdir(folder):  # as its successor does, when it sweeps before the deploy comes
            os.unlink(os.path.join(folder, name))
    return put(self, application)

_client.ControlClient.upload, _client.ControlClient.put = count, killing
serve.run(Hello.bind())
show()
print(len(uploads), len(set(uploads)))
""")
    assert out.splitlines() == ["default RUNNING {'Hello': ('HEALTHY', {'RUNNING': 1})}", "2 1"]


def test_code_is_not_taken_by_tcp(world):
    """Not even with the token of the control API."""
    import hashlib
    import http.client
    import subprocess

    from support import ports

    token = world.write("token", "secret" * 8)
    token.chmod(0o600)
    port = ports.free()
    server = subprocess.Popen([paths.BINARY, "run", "--port", str(world.port), "--status-port", "0", "--runtime-dir",
                               world.runtime, "--control", f"127.0.0.1:{port}", "--control-token-file", token],
                              env=world.env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    try:
        wait.until(lambda: (world.runtime / str(world.port) / "control.sock").exists(), "the server starts")
        content = b"code"
        c = http.client.HTTPConnection("127.0.0.1", port, timeout=wait.SECONDS)
        c.request("PUT", "/api/serve/code/" + hashlib.sha256(content).hexdigest(), content,
                  {"Authorization": "Bearer " + "secret" * 8})  # fmt: skip
        answer = c.getresponse()
        assert answer.status == 403 and b"only accepted by the unix socket" in answer.read()
        c.close()
        assert not (world.runtime / str(world.port) / "pickles").exists()
    finally:
        server.terminate()
        assert server.wait(wait.SECONDS) == 0
