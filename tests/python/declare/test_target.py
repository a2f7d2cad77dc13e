"""Targets: what can be served, the output of --describe, and the error for each mistake."""

import base64
import json
import os
import re
import subprocess
import sys
import textwrap

import pytest
from fake import PACKAGE, WITHOUT

sys.path.insert(0, str(PACKAGE))
from anyserve import AnyServe, worker  # noqa: E402
from anyserve.code.deployments import deployments_of  # noqa: E402

GOOD = """
from anyserve import AnyServe, Tensor, model
app = AnyServe()
@app.model("add", inputs={"a": Tensor("FP32", [-1])}, outputs={"s": Tensor("FP32")}, idempotent=True)
def add(a): ...
@app.model("other:2", deployment="side", max_queued_requests=7)
async def other(request): ...
@app.model("third", deployment="side", max_ongoing_requests=3)
def third(request): ...
"""
USAGE, NOTFOUND, INTERPRETER, RAISED, DENIED, DECLARATION = 64, 66, 69, 70, 77, 78


@pytest.fixture
def run(tmp_path):
    """run(files, args…) → the finished process; the link, if it comes to that, leads nowhere."""

    def run(files, *args, python=(sys.executable,), **env):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text))
        return subprocess.run(
            [*python, "-m", "anyserve.worker", *args], cwd=tmp_path, capture_output=True, text=True,
            timeout=60, env={**os.environ, "PYTHONPATH": str(PACKAGE), "ANYSERVE_LINK": "/nowhere/link", **env},
        )  # fmt: skip

    return run


def described(run, files, target, **env):
    p = run(files, target, "--describe", **env)
    assert p.returncode == 0, p.stderr
    return json.loads(p.stdout)["deployments"]


def test_describe(run):
    assert described(run, {"two.py": GOOD}, "two.py") == [
        {
            "name": "two",
            "budget": 1,
            "max_queued_requests": 0,
            "options": {},
            "models": [
                {
                    "name": "add",
                    "version": "1",
                    "max_ongoing_requests": 1,
                    "async": False,
                    "idempotent": True,
                    "decoupled": False,
                    "inputs": [{"name": "a", "datatype": "FP32", "shape": [-1]}],
                    "outputs": [{"name": "s", "datatype": "FP32", "shape": None}],
                }
            ],
        },
        {
            "name": "side",
            "budget": 100,
            "max_queued_requests": 7,
            "options": {},
            "models": [
                {"name": "other", "version": "2", "max_ongoing_requests": 100, "async": True, "idempotent": False,
                 "decoupled": False, "inputs": None, "outputs": None},
                {"name": "third", "version": "1", "max_ongoing_requests": 3, "async": False, "idempotent": False,
                 "decoupled": False, "inputs": None, "outputs": None},
            ],
        },
    ]  # fmt: skip


def test_describe_in_lines(run):
    p = run({"two.py": GOOD}, "two.py", "--describe=lines")
    deployments, call, files, *registrations = p.stdout.split("@")
    assert deployments == "two\tadd:1\nside\tother:2\tthird:1\n"
    assert call.startswith("call\tanyserve infer ") and re.fullmatch(r"files\t/[^\t]+/two\.py\n", files)
    named = [line.rstrip("\n").split("\t") for line in registrations]
    assert [line[:3] for line in named] == [["register", "two", "add:1"], ["register", "side", "other:2"],
                                            ["register", "side", "third:1"]]  # fmt: skip
    for line in named:
        assert line[2].split(":")[0].encode() in base64.b64decode(line[3])


def test_a_class_is_not_constructed_and_no_thread_is_started_for_it(run):
    source = """
        import threading
        from anyserve import AnyServe
        app = AnyServe()

        @app.model("c", threads=3)
        class C:
            def __init__(self):
                raise RuntimeError("constructed")
            def __call__(self, request):
                return request.inputs

        threading.Thread.start = None
        """
    p = run({"m.py": source}, "m.py", "--describe=lines")
    assert p.returncode == 0, p.stderr
    assert "@register\tm\tc:1\t" in p.stdout


LABELS = """
from anyserve import AnyServe, Tensor
app = AnyServe()
labels = ["%0100d" % i for i in range({0})]
for i in range({1}):
    app.model("m%d" % i, outputs={{"y": Tensor("FP32", [{0}], labels=labels)}})(lambda request: None)
"""


@pytest.mark.parametrize("labels, fits", [(601, True), (602, False)])
def test_a_registration_that_no_message_holds_is_left_out(run, labels, fits):
    p = run({"m.py": LABELS.format(labels, 1)}, "m.py", "--describe=lines")
    assert ("@register" in p.stdout) is fits
    assert p.stdout.startswith("m\tm0:1\n")


@pytest.mark.parametrize("room", [0, 1])
def test_registrations_are_left_out_that_would_make_the_description_too_long(room):
    app = AnyServe()
    for name in "ab":
        app.model(name)(lambda request: None)
    deployments = deployments_of(app.models, app.deployments, "m.py", None)
    every = worker.registration_lines(deployments, 1 << 20)
    assert len(every) == 2
    full = sum(len(line) + 1 for line in every)
    assert len(worker.registration_lines(deployments, full - 1 + room)) == 1 + room


def test_describing_prints_json_only(run):
    noisy = "import os\nprint('from print')\nos.write(1, b'from write\\n')\n" + textwrap.dedent(GOOD)
    p = run({"m.py": noisy}, "m.py", "--describe")
    json.loads(p.stdout)
    assert "from print" in p.stderr and "from write" in p.stderr


ONE = "from anyserve import AnyServe\n{0} = AnyServe()\n{0}.model('{1}')(lambda request: None)\n"
DECORATED = "from anyserve import model\n@model('hung')\ndef f(request): ...\n"


@pytest.mark.parametrize("files, target, deployment, model", [
    ({"m.py": ONE.format("app", "a")}, "m.py", "m", "a"),
    ({"m.py": ONE.format("app", "a")}, "m", "m", "a"),
    ({"m.py": ONE.format("app", "a")}, "m:app", "m", "a"),
    ({"m.py": ONE.format("app", "a")}, "m.py:app", "m", "a"),
    ({"m.py": ONE.format("application", "a")}, "m.py", "m", "a"),
    ({"m.py": ONE.format("app", "a") + ONE.format("other", "b")}, "m.py", "m", "a"),
    ({"m.py": ONE.format("app", "a") + ONE.format("other", "b")}, "m:other", "m", "b"),
    ({"m.py": ONE.format("app", "a") + "alias = app\ndel app\nsecond = alias\n"}, "m", "m", "a"),
    ({"m.py": DECORATED}, "m.py", "m", "hung"),
    ({"m.py": ONE.format("app", "a") + "class K: pass\nk = K()\nk.app = app\ndel app"}, "m:k.app", "m", "a"),
    ({"pkg/__init__.py": "", "pkg/mod.py": ONE.format("app", "a")}, "pkg.mod", "pkg.mod", "a"),
    ({"pkg/__init__.py": "", "pkg/mod.py": ONE.format("app", "a")}, "pkg.mod:app", "pkg.mod", "a"),
    ({"sub/my model.py": ONE.format("app", "a")}, "sub/my model.py", "my-model", "a"),
    ({"sub/m.py": "import helper\n" + ONE.format("app", "a"), "sub/helper.py": ""}, "sub/m.py", "m", "a"),
    ({"m.py": "import helper\n" + ONE.format("app", "a"), "helper.py": ""}, "m.py", "m", "a"),
])  # fmt: skip
def test_targets(run, files, target, deployment, model):
    (d,) = described(run, files, target)
    assert d["name"] == deployment
    assert [m["name"] for m in d["models"]] == [model]


@pytest.mark.parametrize("files, args, code, texts", [
    ({}, ["none.py"], NOTFOUND, ["none.py does not exist"]),
    ({"d.py/x": ""}, ["d.py"], NOTFOUND, ["d.py is a directory"]),
    ({}, ["none"], NOTFOUND, ["no module named 'none'"]),
    ({"m.py": ""}, ["m.y"], NOTFOUND, ["no module named 'm.y'"]),
    ({"pkg/__init__.py": ""}, ["pkg.none:app"], NOTFOUND, ["no module named 'pkg.none'"]),
    ({"m.py": ""}, ["m.py"], NOTFOUND, ["m.py has no attribute 'app'", "no AnyServe object"]),
    ({"m.py": GOOD}, ["m.py:aap"], NOTFOUND, ["m.py has no attribute 'aap'", "app (3 models)"]),
    ({"m.py": GOOD}, ["m:add"], NOTFOUND, ["m:add is a 'function', not an AnyServe object", "app (3 models)"]),
    ({"m.py": ONE.format("a1", "a") + ONE.format("a2", "b")}, ["m"], NOTFOUND, ["a1 (1 model)", "a2 (1 model)"]),
    ({"m.py": GOOD}, ["m.py:"], USAGE, ["is no target"]),
    ({"m.py": GOOD}, [":app"], USAGE, ["is no target"]),
    ({}, [], USAGE, ["usage:"]),
    ({}, ["m.py", "--nope"], USAGE, ["usage:"]),
    ({"m.py": GOOD}, ["m.py"], USAGE, ["several deployments", "m, side"]),
    ({"m.py": GOOD}, ["m.py", "--deployment", "no"], NOTFOUND, ["no deployment 'no'", "m, side"]),
    ({"m.py": "import nothing_here"}, ["m.py"], RAISED, ["importing m.py failed", "No module named 'nothing_here'", "line 1"]),
    ({"m.py": "import nothing_here"}, ["m"], RAISED, ["importing m failed", "No module named 'nothing_here'"]),
    ({"m.py": "x = ("}, ["m.py"], RAISED, ["SyntaxError"]),
    ({"m.py": "def f():\n    1 / 0\nf()"}, ["m.py"], RAISED, ["ZeroDivisionError", "line 2, in f"]),
    ({"m.py": "import sys; sys.exit(3)"}, ["m.py"], RAISED, ["SystemExit: 3"]),
    ({"m.py": "def f(n): f(n + 1)\nf(0)"}, ["m.py"], RAISED, ["RecursionError"]),
    ({"m.py": "from anyserve import AnyServe\napp = AnyServe()"}, ["m.py"], DECLARATION, ["m.py declares no models"]),
    ({"m.py": ONE.format("app", "a b")}, ["m.py"], DECLARATION, ["'a b' is no model name", "line 3"]),
    ({"m.py": ONE.format("app", "a") + "app.model('a')(lambda request: 1)"}, ["m.py"], DECLARATION, ["declared twice"]),
    ({"m.py": ONE.format("app", "a") + "app.model('b', max_queued_requests=3)(lambda request: 1)\n"
              "app.model('c', max_queued_requests=4)(lambda request: 1)"}, ["m.py"], DECLARATION,
     ["deployment 'm': its models disagree on max_queued_requests: 3, 4"]),
    ({"m.py": "from anyserve import Tensor\nTensor('FP31', [1])"}, ["m.py"], DECLARATION, ["'FP31' is no datatype"]),
])  # fmt: skip
def test_mistakes(run, files, args, code, texts):
    p = run(files, *args)
    assert p.returncode == code, p.stderr
    for text in texts:
        assert text in p.stderr
    assert p.stdout == ""
    assert len(p.stderr.splitlines()) <= 30  # one screen
    if "failed" in texts[0]:
        assert "anyserve/code/target.py" not in p.stderr


def test_models_beside_the_app_are_mentioned(run):
    p = run({"m.py": ONE.format("app", "a") + DECORATED}, "m.py", "--describe=lines")
    assert p.stdout.split("@")[0] == "m\ta:1\n"
    assert "not served" in p.stderr and "hung" in p.stderr


def test_a_constructor_that_raises(run):
    source = """
    from anyserve import AnyServe
    app = AnyServe()
    @app.model("m")
    class M:
        def __init__(self):
            raise OSError("no weights")
        def __call__(self, x): ...
    """
    p = run({"m.py": source}, "m.py")
    assert p.returncode == RAISED
    assert "model 'm': constructing M failed" in p.stderr and "no weights" in p.stderr
    assert described(run, {"m.py": source}, "m.py")  # describing constructs nothing


def test_without_a_supervisor(run):
    p = run({"m.py": ONE.format("app", "a")}, "m.py", ANYSERVE_LINK="")
    assert p.returncode == USAGE and "anyserve run" in p.stderr


def test_an_interpreter_without_numpy(run):
    p = run({"m.py": GOOD}, "m.py", python=WITHOUT, ANYSERVE_TEST_WITHOUT="numpy")
    assert p.returncode == INTERPRETER
    assert sys.executable in p.stderr and "cannot import numpy" in p.stderr and "--python" in p.stderr


def test_an_interpreter_without_the_extension(run):
    p = run({"m.py": GOOD}, "m.py", python=WITHOUT, ANYSERVE_TEST_WITHOUT="anyserve._native")
    assert p.returncode == INTERPRETER
    assert sys.executable in p.stderr and "extension" in p.stderr


def test_an_interpreter_that_is_too_old(run, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.version_info = (3, 10, 9, 'final', 0)\n")
    p = run({"m.py": GOOD}, "m.py", PYTHONPATH=f"{tmp_path}:{PACKAGE}")
    assert p.returncode == INTERPRETER
    assert "Python 3.10.9" in p.stderr and "3.11 or newer" in p.stderr


def copy_package(to):
    """The package's Python files, without the extension and the binary."""
    (to / "anyserve").mkdir()
    for source in (PACKAGE / "anyserve").glob("*.py"):
        (to / "anyserve" / source.name).write_text(source.read_text())


def test_the_command_says_when_the_binary_is_missing(tmp_path):
    copy_package(tmp_path)
    p = subprocess.run([sys.executable, "-m", "anyserve", "run"], cwd=tmp_path, capture_output=True, text=True)
    assert p.returncode == 1 and "_bin/anyserve" in p.stderr


def test_the_command_hands_over_with_its_interpreter(tmp_path):
    copy_package(tmp_path)
    (tmp_path / "anyserve" / "_bin").mkdir()
    binary = tmp_path / "anyserve" / "_bin" / "anyserve"
    binary.write_text('#!/bin/sh\necho "$ANYSERVE_PYTHON" "$@"\nexit 7\n')
    binary.chmod(0o755)
    env = {k: v for k, v in os.environ.items() if k != "ANYSERVE_PYTHON"}
    p = subprocess.run([sys.executable, "-m", "anyserve", "run", "x"], cwd=tmp_path, capture_output=True, text=True, env=env)
    assert p.returncode == 7 and p.stdout == f"{sys.executable} run x\n"
