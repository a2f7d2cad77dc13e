"""app.run(): a script that is its own server."""

import os
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from support import paths, wait

APP = """\
#!{python}
import sys
import numpy as np
from anyserve import AnyServe
app = AnyServe()

@app.model("m")
def m(x):
    return x + 1
"""
# the options of the tests' server, as it would have been started by the command
RUN = """
def given(option):
    return sys.argv[sys.argv.index(option) + 1] if option in sys.argv else None  # of a replica they are others

{guard}app.run(port=0, status_port=0, runtime_dir=given("--runtime-dir"), python=given("--python"){more})
"""


def script(folder, guard='if __name__ == "__main__":\n    ', more="", name="my_script.py", app=APP):
    path = folder / name
    path.write_text(app.format(python=sys.executable) + RUN.format(guard=guard, more=more))
    path.chmod(0o755)
    return path


def ask(connect, server):
    assert connect(server).infer("m", {"x": np.array([1])})["output0"].tolist() == [2]


@pytest.mark.parametrize("guard", ['if __name__ == "__main__":\n    ', ""])
def test_a_script_is_a_server(serve, connect, tmp_path, guard):
    """Also where the replicas that import it come upon the call."""
    path = script(tmp_path, guard, ", workers=2, debug_errors=True, max_queued_requests=-1")
    server = serve(None, binary=path, cwd=tmp_path)
    ask(connect, server)
    wait.until(lambda: server.log.text().count("event=worker_ready") == 2, server.log.text)
    assert server.log.text().count("serves my_script.py") == 1


def test_from_another_folder(serve, connect, tmp_path):
    ask(connect, serve(None, binary=script(tmp_path), cwd="/"))


def test_an_app_of_another_name_and_module(serve, connect, tmp_path):
    (tmp_path / "models.py").write_text(APP.format(python="").replace("app", "inner"))
    path = script(tmp_path, app="#!{python}\nimport sys\nfrom models import inner as app\n")
    server = serve(None, binary=path, cwd="/")
    ask(connect, server)
    assert "models.py:inner" in server.log.text()


def test_ctrl_c_ends_it(serve, connect, tmp_path):
    server = serve(None, binary=script(tmp_path), cwd=tmp_path)
    ask(connect, server)
    os.kill(server.process.pid, signal.SIGINT)
    assert server.process.wait(wait.SECONDS) in (0, 130)
    server.exit_code = server.process.returncode


def run_python(folder, source, *args, stdin=None):
    path = folder / "other.py"
    path.write_text(textwrap.dedent(source))
    return subprocess.run([sys.executable, *(args or [path])], cwd=folder, input=stdin, capture_output=True, text=True,
                          timeout=60, env={**os.environ, "PYTHONPATH": str(paths.SDK)})  # fmt: skip


START = "from anyserve import AnyServe\napp = AnyServe()\napp.model('m')(lambda x: x)\n"


@pytest.mark.parametrize(("call", "text"), [
    ("app.run(prot=1)", "app.run() has no option 'prot': did you mean 'port'?"),
    ("app.run(xyzzy=1)", "app.run() has no option 'xyzzy': `anyserve run --help-all` shows them, as --xyz-abc for xyz_abc"),
    ("app.run(port=object())", "port is a text, a number, True or False, not object"),
    ("app.run(host=True)", "host is not a switch: it has a value"),
    ("AnyServe().run()", "app.run() needs the app in a variable of its module"),
])  # fmt: skip
def test_what_is_wrong_is_said(tmp_path, call, text):
    p = run_python(tmp_path, START + call)
    assert p.returncode == 1 and text in p.stderr and "Traceback" in p.stderr


def test_values_are_checked_by_the_command(tmp_path):
    p = run_python(tmp_path, START + "app.run(port=70000)")
    assert p.returncode == 2 and "--port" in p.stderr and "65535" in p.stderr


def test_what_was_typed_has_no_file(tmp_path):
    p = run_python(tmp_path, "", "-", stdin=START + "app.run()")
    assert p.returncode == 1 and "has no file" in p.stderr


def test_an_app_in_a_package(serve, connect, tmp_path):
    package = tmp_path / "pkg"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "helper.py").write_text("ONE = 1\n")
    script(package, name="main.py", app=APP.replace("import sys", "import sys\nfrom .helper import ONE"))
    starter = tmp_path / "start"
    starter.write_text(f'#!/bin/sh\nexec {sys.executable} -m pkg.main "$@"\n')
    starter.chmod(0o755)
    ask(connect, serve(None, binary=starter, cwd=tmp_path))
