"""anyserve run --reload: the code that is served follows its files."""

import os
import subprocess
import threading

import grpc
import numpy as np
import pytest

from support import paths, wait

APP = """\
import numpy as np
from anyserve import AnyServe
from helper import factor
app = AnyServe()

@app.model("m")
def m(x):
    return x * factor() + {add}
"""
HELPER = "def factor():\n    return {factor}\n"


class Application:
    def __init__(self, folder):
        self.folder = folder
        self.write(APP.format(add=0))
        self.write(HELPER.format(factor=1), "helper.py")

    def write(self, text, name="app.py"):
        """As editors do: a new file in the place of the old one."""
        new = self.folder / (name + "~")
        new.write_text(text)
        os.replace(new, self.folder / name)


class Load:
    """Calls without a pause; every one is answered."""

    def __init__(self, client):
        self.client, self.answers, self.error = client, [], None
        self.ending = threading.Event()
        self.thread = threading.Thread(target=self.work)
        self.thread.start()

    def work(self):
        try:
            while not self.ending.is_set():
                self.answers.append(int(self.client.infer("m", {"x": np.array([1])})["output0"][0]))
        except grpc.RpcError as e:
            self.error = e

    def await_answer(self, value):
        wait.until(lambda: self.error or self.answers[-1:] == [value], lambda: f"{value}; the last are {self.answers[-3:]}")
        assert self.error is None

    def end(self):
        self.ending.set()
        self.thread.join()
        assert self.error is None


@pytest.fixture
def application(tmp_path):
    return Application(tmp_path)


@pytest.fixture
def server(serve, application):
    return serve("app.py", "--reload", "--update-min-ready", "0s", cwd=application.folder)


def test_changes_are_followed_and_no_request_is_refused(server, connect, application):
    load = Load(connect(server))
    try:
        load.await_answer(1)
        application.write(APP.format(add=1))
        load.await_answer(2)
        application.write(HELPER.format(factor=3), "helper.py")  # what it imports from beside it
        load.await_answer(4)
        with open(application.folder / "helper.py", "w") as f:  # in place, the same size, perhaps the same second
            f.write(HELPER.format(factor=5))
        load.await_answer(6)
    finally:
        load.end()
    # for a moment both serve, as in every update
    assert list(dict.fromkeys(load.answers)) == [1, 2, 4, 6]


def test_broken_code_leaves_the_former_serving(server, connect, application):
    load = Load(connect(server))
    try:
        load.await_answer(1)
        since = len(server.log.lines)
        application.write("def broken(:\n")
        server.log.wait("event=reload_failed", since)
        server.log.wait("SyntaxError", since)
        server.log.wait("The former code keeps serving", since)
        n = len(load.answers)
        wait.until(lambda: load.error or len(load.answers) > n + 20, "further answers")
        assert load.answers[-1] == 1 and server.log.find("event=worker_ready", since) is None
        application.write(APP.format(add=7))
        load.await_answer(8)
    finally:
        load.end()


def test_models_come_and_go(server, connect, application):
    client = connect(server)
    more = '\n@app.model("n")\ndef n(x):\n    return -x\n'
    application.write(APP.format(add=0) + more)

    def answers(model):
        try:
            return int(client.infer(model, {"x": np.array([5])})["output0"][0])
        except grpc.RpcError as e:
            return e.code().name

    wait.until(lambda: answers("n") == -5, lambda: answers("n"))
    assert answers("m") == 5
    application.write(APP.format(add=0))
    wait.until(lambda: answers("n") == "NOT_FOUND", lambda: answers("n"))
    assert answers("m") == 5


@pytest.mark.long
def test_several_replicas_and_many_saves(serve, connect, application):
    server = serve("app.py", "--reload", "--workers", "3", "--update-min-ready", "0s", cwd=application.folder)
    load = Load(connect(server))
    try:
        for add in range(1, 20):
            application.write(APP.format(add=add))
        load.await_answer(20)
        assert server.log.text().count("event=reloading") < 19  # saves in a row are one change
    finally:
        load.end()


def test_a_new_controller_goes_on_watching(server, connect, application):
    load = Load(connect(server))
    try:
        load.await_answer(1)
        since = len(server.log.lines)
        os.kill(server.controller, 9)
        server.expect_error("controller")
        server.log.wait("event=controller_ready", since)
        application.write(APP.format(add=1))
        load.await_answer(2)
    finally:
        load.end()


@pytest.mark.parametrize(("options", "text"), [
    (["--reload"], "--reload needs a FILE or MODULE to serve"),
    (["--reload", "--warm-spares", "1", "app.py"], "--reload and --warm-spares cannot be combined: a spare has loaded the old code"),
])  # fmt: skip
def test_what_does_not_go_together(application, options, text):
    p = subprocess.run([paths.BINARY, "run", "--port", "0", *options], cwd=application.folder, capture_output=True,
                       text=True, timeout=60)  # fmt: skip
    assert p.returncode == 2 and text in p.stderr
