"""Which modules are loaded, and when: `import anyserve` and the console script load only what they need."""

import ast
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from fake import PACKAGE

BINARY = PACKAGE / "anyserve/_bin/anyserve"
ENV = {**os.environ, "PYTHONPATH": str(PACKAGE)}


def child(code):
    """What the code prints, as JSON, in an interpreter of its own; `before` is what was loaded at its start."""
    code = "import sys\nbefore = set(sys.modules)\n" + textwrap.dedent(code)
    p = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=ENV)
    assert p.returncode == 0, p.stderr
    return json.loads(p.stdout)


def loaded(code):
    """The modules that the code loads beyond those that every interpreter has."""
    return set(child(code + "\nnew = sorted(set(sys.modules) - before)\nimport json\nprint(json.dumps(new))"))


def test_the_import_loads_nothing_else():
    assert loaded("import anyserve") == {"anyserve"}


@pytest.mark.parametrize("args", [["--version"], ["status"], ["run", "file.py"]], ids=" ".join)
def test_the_console_script_loads_nothing_else(args):
    """Up to the call that makes the process the native binary, which is the same for every command."""
    code = f"""
        import os
        calls = []
        os.execv = lambda path, argv: calls.append(argv)
        sys.argv = ["/somewhere/anyserve"] + {args}
        from anyserve._cli import main
        main()
        assert calls == [["anyserve"] + {args}], calls
    """
    assert loaded(textwrap.dedent(code)) == {"anyserve", "anyserve._cli"}


def test_declaring_a_model_needs_no_numpy():
    new = loaded("from anyserve import AnyServe, Tensor\n"
                 "AnyServe().model('m', inputs={'a': Tensor('FP32', [-1])})(lambda a: a)")  # fmt: skip
    assert "anyserve.app" in new
    assert not {n for n in new if n.split(".")[0] in ("numpy", "asyncio") or n == "anyserve._native"}


def public():
    """Name to module, as type checkers read it."""
    tree = ast.parse((PACKAGE / "anyserve/__init__.py").read_text())
    blocks = [n for n in tree.body if isinstance(n, ast.If) and isinstance(n.test, ast.Name)
              and n.test.id == "TYPE_CHECKING"]  # fmt: skip
    return {a.asname or a.name: n.module for b in blocks for n in b.body if isinstance(n, ast.ImportFrom) and n.level
            for a in n.names}  # fmt: skip


def test_every_public_name_is_there_alone():
    """Each in an interpreter in which nothing else was asked for; it is the object of its module."""
    names = public()
    said = child("import anyserve, json; print(json.dumps(anyserve.__all__))")
    assert sorted(names) == said == sorted(said)
    for name, module in names.items():
        same = child(f"""
            import anyserve, importlib, json
            value = anyserve.{name}
            module = importlib.import_module("anyserve.{module}")
            from anyserve import {name}
            print(json.dumps([value is getattr(module, "{name}"), {name} is value, anyserve.{name} is value]))
        """)
        assert same == [True, True, True], name


def test_public_names_stay_when_everything_is_loaded():
    """A module of the package does not take the place of a public name that is called alike."""
    modules = sorted(p.stem for p in (PACKAGE / "anyserve").glob("*.py") if not p.stem.startswith("__"))
    said = child(f"""
        import anyserve, importlib, json
        for name in {modules}:
            importlib.import_module("anyserve." + name)
        print(json.dumps({{n: type(getattr(anyserve, n)).__name__ for n in anyserve.__all__}}))
    """)
    assert "module" not in said.values(), said
    star = child("from anyserve import *\nimport anyserve, json\n"
                 "print(json.dumps([n for n in anyserve.__all__ if globals()[n] is not getattr(anyserve, n)]))")
    assert star == []


def test_the_package_lists_its_names_and_knows_no_others():
    said = child("""
        import anyserve, json
        try:
            anyserve.AnyServ
        except AttributeError as e:
            print(json.dumps([str(e), sorted(set(anyserve.__all__) - set(dir(anyserve))), anyserve.__version__]))
    """)
    version = subprocess.run([BINARY, "--version"], capture_output=True, text=True, timeout=60).stdout.split()[1]
    assert said == ["module 'anyserve' has no attribute 'AnyServ'", [], version]


USES = """
import anyserve
from anyserve import AnyServe, Tensor, batch

reveal_type(anyserve.get_replica_context())
reveal_type(anyserve.Request.id)
reveal_type(Tensor)
reveal_type(batch)
anyserve.AnyServ
"""


def test_a_type_checker_sees_the_names(tmp_path):
    (tmp_path / "uses.py").write_text(USES)
    p = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--hide-error-context",
                        "--cache-dir", tmp_path / "cache", "uses.py"],
                       cwd=tmp_path, capture_output=True, text=True, timeout=300,
                       env={**os.environ, "MYPYPATH": str(PACKAGE)})  # fmt: skip
    said = [line.split(": ", 1)[1] for line in p.stdout.splitlines() if line.startswith("uses.py:")]
    assert len(said) == 5, p.stdout + p.stderr
    assert 'Revealed type is "anyserve.replica.ReplicaContext"' in said[0]
    assert "-> str" in said[1]
    assert "Tensor" in said[2] and '"Any"' not in said[2]
    assert "def " in said[3]
    assert said[4] == 'error: Module has no attribute "AnyServ"; maybe "AnyServe"?  [attr-defined]'


@pytest.fixture
def recorder(tmp_path):
    """An interpreter that only leaves a file when it is started, and the environment of a command that would use it."""
    started, python = tmp_path / "started", tmp_path / "python"
    python.write_text(f'#!/bin/sh\necho "$@" >>{started}\nexit 1\n')
    python.chmod(0o755)
    (tmp_path / "file.py").write_text("")
    (tmp_path / "file.yaml").write_text("applications: [{import_path: file.py}]\n")

    def run(*args):
        p = subprocess.run([BINARY, *args], cwd=tmp_path, capture_output=True, text=True, timeout=60,
                           env={"PATH": f"{tmp_path}:/usr/bin:/bin", "ANYSERVE_PYTHON": str(python),
                                "HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)})  # fmt: skip
        return p, started.read_text() if started.exists() else ""

    return run


LIGHT = ["--version", "version", "--help", "help run", "run --help", "schema", "completion bash", "check file.yaml",
         "status --runtime-dir .", "workers --runtime-dir .", "logs --runtime-dir .", "config --runtime-dir .",
         "deploy file.yaml --runtime-dir ."]  # fmt: skip


@pytest.mark.parametrize("command", LIGHT)
def test_light_commands_start_no_python(recorder, command):
    p, started = recorder(*command.split())
    assert not started and (p.stdout or p.stderr)


def test_a_command_that_reads_code_starts_python(recorder):
    """The counter-test: what the commands above do not start, this one does."""
    p, started = recorder("build", "file.py")
    assert "anyserve.worker" in started and p.returncode != 0
