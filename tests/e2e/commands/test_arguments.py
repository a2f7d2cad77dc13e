"""A file or target of another kind than the command takes: the error says what it is, and which command takes it."""

import os
import sys

import pytest

from support import paths
from support.process.commands import run

CODE = """
from anyserve import AnyServe
app = AnyServe()

@app.model("m")
def m(x):
    return x
"""
SPEC = "applications:\n- import_path: file:app\n"


@pytest.fixture
def folder(tmp_path):
    files = {"file.py": CODE, "s.yaml": SPEC, "tab.yaml": "applications:\n- name: a\n\timport_path: file:app\n",
             "notes.txt": "hello\n", "weights.bin": "\0\1", "both/app.py": CODE, "both/anyserve.yaml": SPEC, "code/one.py": CODE,
             "code/two.py": CODE, "code/three.py": CODE, "code/four.py": CODE, "pack/__init__.py": CODE, "spec/models.yml": SPEC,
             "values.json": '{"a": 1}'}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "empty").mkdir()
    return tmp_path


def said(folder, verb, name, code):
    more = {"run": ["--port", 0, "--status-port", "off", "--runtime-dir", folder / "r", "--python", sys.executable],
            "build": ["--python", sys.executable], "deploy": ["--runtime-dir", folder / "r"]}
    more["start"] = [*more["run"], "--state-dir", folder / "state"]
    done = run(verb, name, *more.get(verb, []), code=code, cwd=folder, env={**os.environ, "PYTHONPATH": str(paths.SDK)})
    assert not done.stdout and (code == 78 or not (folder / "state").exists()) and len(done.stderr.splitlines()) <= 4, done
    return done.stderr


@pytest.mark.parametrize("verb", ["run", "build"])
@pytest.mark.parametrize("name, code, texts", [
    ("s.yaml", 2, ["s.yaml is a deployment file", {"run": "anyserve start s.yaml", "build": "anyserve check s.yaml"}]),
    ("values.json", 2, ["values.json is a deployment file"]),
    ("none.yaml", 66, ["none.yaml does not exist"]),
    ("none.py", 66, ["none.py does not exist"]),
    (".", 2, ["'.' is a directory", {"run": "anyserve run ./file.py", "build": "anyserve build ./file.py"},
              {"run": "anyserve start ./s.yaml", "build": "anyserve check ./s.yaml"}]),
    ("both/", 2, ["'both/' is a directory", {"run": "anyserve run both/app.py", "build": "anyserve build both/app.py"},
                  {"run": "anyserve start both/anyserve.yaml", "build": "anyserve check both/anyserve.yaml"}]),
    ("code/", 2, ["'code/' is a directory", {"run": "anyserve run code/four.py", "build": "anyserve build code/four.py"}]),
    ("empty", 2, ["'empty' is a directory", "Python file"]),
    ("./empty:app", 2, ["'./empty' is a directory"]),
    ("notes.txt", 2, ["notes.txt is not a Python file", "FILE.py"]),
    ("weights.bin", 2, ["weights.bin is not a Python file"])])
def test_no_code(folder, verb, name, code, texts):
    out = said(folder, verb, name, code)
    for text in texts:
        assert (text[verb] if isinstance(text, dict) else text) in out, out


@pytest.mark.parametrize("verb", ["start", "deploy", "check"])
@pytest.mark.parametrize("name, code, texts", [
    ("file.py", 2, ["file.py is Python code", "anyserve run file.py", "anyserve build file.py -o anyserve.yaml"]),
    ("file.py:app", 2, ["file.py:app is Python code", "anyserve run file.py:app"]),
    ("file:app", 2, ["file:app is Python code", "anyserve run file:app"]),
    ("none.yaml", 66, ["none.yaml does not exist"]),
    ("none", 66, ["none does not exist"]),
    (".", 2, ["'.' is a directory", "{verb} ./s.yaml", "anyserve run ./file.py"]),
    ("both", 2, ["'both' is a directory", "{verb} both/anyserve.yaml", "anyserve run both/app.py"]),
    ("spec/", 2, ["'spec/' is a directory", "{verb} spec/models.yml"]),
    ("code", 2, ["'code' is a directory", "anyserve run code/four.py"]),
    ("empty", 2, ["'empty' is a directory", "deployment file"])])
def test_no_deployment_file(folder, verb, name, code, texts):
    out = said(folder, verb, name, code)
    for text in texts:
        assert text.format(verb=f"anyserve {verb}") in out, out


@pytest.mark.parametrize("verb", ["start", "check"])
def test_what_it_is_not(folder, verb):
    out = said(folder, verb, "notes.txt", 78)
    assert "notes.txt:1:1: " in out and "notes.txt may not be a deployment file" in out and "YAML or JSON" in out, out
    out = said(folder, verb, "tab.yaml", 78)
    assert "tab.yaml:3:1: this line is indented by a tab; YAML permits only spaces" in out and "scalar" not in out, out
    assert "may not be a deployment file" not in out


def test_what_is_taken(folder):
    """A package that lies here, and a deployment file of any name."""
    assert run("build", "pack", "--python", sys.executable, cwd=folder, code=0,
               env={**os.environ, "PYTHONPATH": str(paths.SDK)}).stdout
    (folder / "s.yaml").rename(folder / "models.conf")
    assert "1 application" in run("check", "models.conf", cwd=folder, code=0).stdout
