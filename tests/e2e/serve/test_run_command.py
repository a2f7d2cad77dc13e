"""`anyserve run` of applications and of functions that build them."""

import subprocess

import pytest
from driver_world import World

from support import paths, wait

pytestmark = pytest.mark.core

SHOP = """
from anyserve import serve

@serve.deployment
class Shop:
    def __init__(self, size, note=""):
        self.size = size

    def __call__(self):
        return SIZE, self.size

SIZE = 1
app = Shop.bind("one")

def build(args):
    return Shop.bind(args["size"])

class Args:
    @classmethod
    def model_validate(cls, args):
        made = cls()
        made.size = int(args["size"]) + 100
        return made

def typed(args: Args):
    return Shop.bind(args.size)

def nothing(args):
    return None

def two(a, b):
    return None
"""
CALL = "from anyserve import serve\nprint(serve.get_app_handle('default').remote().result(timeout_s=20))"


class Command:
    """`anyserve run`, in the background."""

    def __init__(self, world, *args):
        self.log = world.folder / "log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [paths.BINARY, "run", *args, "--port", str(world.port), "--status-port", "0", "--runtime-dir", world.runtime],
                env=world.env, cwd=world.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip

    def wait_for(self, text):
        wait.until(lambda: text in self.log.read_text() or self.process.poll() is not None, self.log.read_text)
        assert text in self.log.read_text(), self.log.read_text()

    def end(self):
        self.process.terminate()
        assert self.process.wait(wait.SECONDS) == 0, self.log.read_text()


@pytest.fixture
def world():
    w = World()
    w.write("shop.py", SHOP)
    w.env["PATH"] = "/usr/bin:/bin"
    import sys

    w.env["ANYSERVE_PYTHON"] = sys.executable
    yield w
    w.close()


@pytest.mark.parametrize("args, answer", [
    (["shop.py"], "(1, 'one')"), (["shop:app"], "(1, 'one')"), (["shop:build", "size=7", "more=x"], "(1, '7')"),
    (["shop:typed", "size=7"], "(1, 107)"),
], ids=lambda v: "_".join(v) if isinstance(v, list) else "")  # fmt: skip
def test_an_application_is_served(world, args, answer):
    command = Command(world, *args)
    command.wait_for("Ready: ")
    assert world.run(CALL) == answer
    assert f"where ANYSERVE_PORT is {world.port}:" in command.log.read_text() and "curl" not in command.log.read_text()
    assert f"\n  route       http://127.0.0.1:{world.port}/  HTTP requests to the application\n" in command.log.read_text()
    command.end()


@pytest.mark.parametrize("args, text", [
    (["shop:app", "size=1"], "Arguments can only be passed to an application builder function, not an already built application."),
    (["shop:build", "size"], "'size' is not KEY=VALUE"),
    (["shop:build", "=1"], "'=1' is not KEY=VALUE"),
    (["shop:build"], "KeyError: 'size'"),
    (["shop:nothing"], "must return an `Application` returned"),
    (["shop:two"], "should take exactly one parameter"),
    (["shop:Shop"], "is a deployment; what is served is an application"),
    (["shop:SIZE"], "is an 'int', not an AnyServe object"),
    (["shop:build", "size=" + "x" * 17000], "the arguments KEY=VALUE have more than 16384 bytes"),
], ids=lambda v: v[0] if isinstance(v, list) else "")  # fmt: skip
def test_what_cannot_be_served(world, args, text):
    command = Command(world, *args)
    assert command.process.wait(wait.SECONDS) != 0
    assert text in command.log.read_text(), command.log.read_text()


def test_files_are_followed(world):
    command = Command(world, "--reload", "shop:build", "size=7")
    command.wait_for("Ready: ")
    assert world.run(CALL) == "(1, '7')"
    world.write("shop.py", SHOP.replace("SIZE = 1", "SIZE = 2"))
    command.wait_for("event=reloading")
    wait.until(lambda: world.run(CALL) == "(2, '7')", "the new code with the same arguments")
    command.end()
