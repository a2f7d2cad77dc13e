"""Which files of an application's code are copied, and the name of the copy."""

import argparse
import os
import socket
import stat
import subprocess
import sys

import pytest
from fake import PACKAGE

sys.path.insert(0, str(PACKAGE))
from anyserve.code import pin  # noqa: E402


class Code:
    def __init__(self, folder):
        self.root = folder / "shop"
        self.store = folder / "state" / "code"
        self.root.mkdir()
        (folder / "state").mkdir(mode=0o700)
        self.write("app.py", "import helper\n")
        self.write("helper.py", "X = 1\n")

    def write(self, name, text="", mode=None):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        if mode is not None:
            path.chmod(mode)
        return path

    def args(self, target="app:app", folder=True, exclude=(), max_bytes=1 << 20, max_files=1000):
        return argparse.Namespace(target=target, store=str(self.store), folder=folder, exclude=list(exclude),
                                  max_bytes=max_bytes, max_files=max_files, known="")

    def find(self, *args, **kwargs):
        found = pin.find(self.args(*args, **kwargs))
        return None if found is None else (sorted(found[0].entries), found[1])

    def copy(self, *args, **kwargs):
        """(hash, relative names of what lies in the copy)"""
        tree, _ = pin.find(self.args(*args, **kwargs))
        value = pin.store(tree, str(self.store))
        top = self.store / value
        return value, sorted(str(p.relative_to(top)) for p in top.rglob("*"))

    def refused(self, *args, **kwargs):
        with pytest.raises(pin.Refused) as e:
            self.copy(*args, **kwargs)
        assert not self.store.exists() or os.listdir(self.store) == []
        return str(e.value)


@pytest.fixture
def code(tmp_path, monkeypatch):
    code = Code(tmp_path)
    monkeypatch.chdir(code.root)
    return code


def test_the_same_content_has_the_same_name(code):
    first, names = code.copy()
    assert names == ["app.py", "helper.py"] and len(first) == 64
    os.utime(code.root / "app.py", (1, 1))
    (code.root / "app.py").chmod(0o644)
    code.write("__pycache__/app.pyc", "cached")
    assert code.copy()[0] == first and os.listdir(code.store) == [first]
    code.write("app.py", "import helper  \n")
    assert code.copy()[0] != first
    code.write("app.py", "import helper\n")
    assert code.copy()[0] == first
    assert stat.S_IMODE(code.store.stat().st_mode) == 0o700
    assert {stat.S_IMODE((code.store / first / n).stat().st_mode) for n in names} == {0o400}


@pytest.mark.parametrize("change", [
    lambda c: (c.root / "helper.py").chmod(0o755),
    lambda c: os.rename(c.root / "helper.py", c.root / "helped.py"),
    lambda c: c.write("empty.txt"),
    lambda c: (c.root / "folder").mkdir(),
    lambda c: os.symlink("app.py", c.root / "again.py"),
    lambda c: c.write("helper.py", "X = 2\n")])
def test_another_content_has_another_name(code, change):
    first = code.copy()[0]
    change(code)
    assert code.copy()[0] != first


def test_contents_do_not_run_into_each_other(code):
    """Two files whose names and bytes, one after the other, are those of two others."""
    code.write("a", "bc")
    one = code.copy()[0]
    os.unlink(code.root / "a")
    code.write("ab", "c")
    assert code.copy()[0] != one


def test_what_is_never_copied(code):
    for name in ("__pycache__/x.pyc", ".git/config", ".venv/bin/python", "env/pyvenv.cfg", "env/lib/x.py", "a.pyc",
                 "sub/.DS_Store", "sub/node_modules/x.js", "notes.txt~", ".#lock"):
        code.write(name)
    os.symlink("nobody@nowhere", code.root / ".#app.py")
    assert code.copy()[1] == ["app.py", "helper.py", "sub"]


@pytest.mark.parametrize("pattern, left", [
    ("*.bin", ["a/b", "a/b/y.txt"]), ("a/b", ["a/x.bin", "z.bin"]), ("/a/b/", ["a/x.bin", "z.bin"]), ("b", ["a/x.bin", "z.bin"]),
    ("a/*.bin", ["a/b", "a/b/y.txt", "z.bin"]), ("a", ["z.bin"]), ("*", None)])
def test_what_the_user_excludes(code, pattern, left):
    for name in ("a/b/y.txt", "a/x.bin", "z.bin"):
        code.write(name)
    if left is None:
        assert code.find(exclude=[pattern]) is None
    else:
        assert code.copy(exclude=[pattern])[1] == sorted([*left, *(["a"] if pattern != "a" else []), "app.py", "helper.py"])


def test_the_bound_of_bytes(code):
    sum_ = sum(p.stat().st_size for p in code.root.iterdir())
    code.copy(max_bytes=sum_)
    os.rename(code.store, code.store.with_name("before"))
    code.write("weights/model.bin", "x" * 5000)
    assert "has more than" in code.refused(max_bytes=sum_ + 4999)
    why = code.refused(max_bytes=sum_ + 4999)
    assert str(code.root) in why and "--max-code-bytes" in why and "weights/model.bin" in why, why
    code.copy(max_bytes=sum_ + 5000)


def test_the_bound_of_files(code):
    code.write("sub/x.txt")  # with its folder two
    why = code.refused(max_files=3)
    assert "has more than 3 files (--max-code-files)" in why, why
    code.copy(max_files=4)


def test_links_stay_inside(code):
    code.write("data/real.txt", "1")
    os.symlink("../data/real.txt", code.root / "data" / "same.txt")
    os.symlink(code.root / "data", code.root / "also")  # absolute: the copy's is not
    value, names = code.copy()
    assert names == ["also", "app.py", "data", "data/real.txt", "data/same.txt", "helper.py"]
    copy = code.store / value
    assert os.readlink(copy / "also") == "data" and os.readlink(copy / "data" / "same.txt") == "real.txt"
    assert (copy / "also" / "same.txt").read_text() == "1"


@pytest.mark.parametrize("make, why", [
    (lambda c: os.symlink("/etc/passwd", c.root / "x"), "is a symbolic link out of what is copied, to /etc/passwd"),
    (lambda c: os.symlink("..", c.root / "x"), "is a symbolic link out of what is copied"),
    (lambda c: os.symlink("nowhere", c.root / "x"), "is a symbolic link that leads nowhere"),
    (lambda c: (c.write(".git/x"), os.symlink(".git/x", c.root / "x")), "is a symbolic link to .git/x, which is not copied"),
    (lambda c: os.mkfifo(c.root / "x"), "is neither a file nor a folder"),
    (lambda c: socket.socket(socket.AF_UNIX).bind("x"), "is neither a file nor a folder")])
def test_what_cannot_be_copied(code, make, why):
    make(code)
    told = code.refused()
    assert told.startswith(str(code.root / "x")) and why in told, told
    code.copy(exclude=["x"])


@pytest.mark.parametrize("name", ["x", "sub/x"])
def test_what_cannot_be_read(code, name, monkeypatch):
    path = code.write(name, "1")
    real = os.open

    def refuse(path_, *args, **kwargs):  # as another user's; we may be root
        if str(path_) == str(path):
            raise PermissionError(13, "Permission denied", str(path_))
        return real(path_, *args, **kwargs)

    with monkeypatch.context() as m:
        m.setattr(os, "open", refuse)
        assert code.refused() == "%s cannot be read: Permission denied" % path
    code.copy()


def test_a_folder_that_cannot_be_read(code, monkeypatch):
    code.write("sub/x")
    real = os.listdir

    def refuse(path):
        if str(path) == str(code.root / "sub"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    with monkeypatch.context() as m:
        m.setattr(os, "listdir", refuse)
        with pytest.raises(pin.Refused, match="sub cannot be read: Permission denied"):
            code.find()


def test_a_file_that_changes_meanwhile(code, monkeypatch):
    real = os.fstat
    calls = []

    def fstat(fd):
        calls.append(fd)
        st = real(fd)
        return os.stat_result(list(st[:6]) + [st.st_size + len(calls)] + list(st[7:])) if isinstance(fd, int) else st

    monkeypatch.setattr(pin.os, "fstat", fstat)
    assert "changes while it is copied; deploy again" in code.refused()


def test_imports_that_are_copied(code):
    """Without a working_dir: what is imported from beside, packages whole, and files that go with a module."""
    code.write("app.py", """
import os, json, numpy, helper
from pkg.deep import thing
import space.inner
HERE = os.path.dirname(__file__)
def handler(x):
    import lazy
    return open(os.path.join(HERE, "labels.txt")), os.path.join(HERE, "data", "x"), {"other": 1}
""")
    code.write("lazy.py", "from second import y\n")
    code.write("second.py")
    for name in ("pkg/__init__.py", "pkg/deep.py", "pkg/weights.bin", "pkg/__pycache__/x.pyc", "space/inner.py", "labels.txt",
                 "data/x", "data/y", "unrelated.py", "large.bin", "notes.md"):
        code.write(name)
    code.write("pkg/deep.py", "from . import sibling\nimport third\nPATH = __file__\nROOT = '../config.toml', 'config.toml'\n")
    for name in ("pkg/sibling.py", "third.py", "config.toml"):
        code.write(name)
    assert code.find(folder=False)[0] == sorted([
        "app.py", "config.toml", "data", "data/x", "data/y", "helper.py", "labels.txt", "lazy.py", "pkg", "pkg/__init__.py", "pkg/deep.py",
        "pkg/sibling.py", "pkg/weights.bin", "second.py", "space", "space/inner.py", "third.py"])


def test_files_as_targets(code, tmp_path):
    code.write("sub/prog.py", "import near\nimport helper\n")
    code.write("sub/near.py")
    assert code.find("sub/prog.py:app", folder=False) == (["helper.py", "sub/near.py", "sub/prog.py"], "sub/prog.py")
    assert code.find("./sub/../sub/prog.py", folder=True)[1] == "sub/prog.py"
    assert code.find(str(code.root / "app.py"), folder=False) == (["app.py", "helper.py"], "app.py")
    (tmp_path / "else").mkdir()
    (tmp_path / "else" / "prog.py").write_text("import mine\n")
    (tmp_path / "else" / "mine.py").write_text("")
    assert code.find(str(tmp_path / "else" / "prog.py:app"), folder=True) == (["mine.py", "prog.py"], "prog.py")
    assert code.find("nothing.py") is None and code.find("nothing.such") is None and code.find("json:app") is None
    with pytest.raises(pin.Refused, match="is excluded from the copy"):
        code.find("sub/prog.py", exclude=["sub"])


def test_a_folder_that_shadows_nothing(code):
    """A folder without __init__.py is what is imported only where no package has its name."""
    code.write("app.py", "import numpy, logging, space\n")
    for name in ("numpy/x.txt", "space/x.py"):
        code.write(name)
    assert code.find(folder=False)[0] == ["app.py", "space", "space/x.py"]


def test_the_state_is_not_part_of_the_code(code):
    code.store = code.root / "state" / "code"
    first = code.copy()[0]
    assert code.copy() == (first, ["app.py", "helper.py"])


def test_a_copy_that_was_begun_is_no_copy(code, monkeypatch):
    def broken(tree, to):
        with open(os.path.join(to, "app.py"), "w") as f:
            f.write("half")
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as m:
        m.setattr(pin, "_write", broken)
        with pytest.raises(OSError, match="No space"):
            code.copy()
    assert os.listdir(code.store) == []
    value, _ = code.copy()
    assert os.listdir(code.store) == [value] and (code.store / value / "app.py").read_text() == "import helper\n"


def run(code, *options, target="app:app", **kwargs):
    return subprocess.run([sys.executable, "-m", "anyserve.code.pin", "--store=" + str(code.store), "--max-bytes=1000000", "--max-files=100",
                           *options, target], capture_output=True, text=True, timeout=120,
                          env={**os.environ, "PYTHONPATH": str(PACKAGE)}, **kwargs)


APP = """
import helper, os
print("loaded from", __file__, "in", os.getcwd())
from anyserve import AnyServe
app = AnyServe()
@app.model("m", deployment="main")
def m(x):
    return x
"""


def test_the_copy_is_described(code):
    code.write("app.py", APP)
    done = run(code, "--folder")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("@code\tsha256:") and lines[1] == "main\tm:1", done.stdout
    value = lines[0].split(":")[1]
    assert "loaded from %s/app.py in %s" % (code.store / value, code.root) in done.stderr
    again = run(code, "--folder", "--known=sha256:" + value)
    assert (again.returncode, again.stdout, again.stderr) == (0, lines[0] + "\n", "")
    file = run(code, target="./app.py:app")
    assert file.stdout.splitlines()[0].endswith("/app.py") and file.returncode == 0, file.stderr


def test_errors_of_the_copy_speak_of_the_original(code):
    code.write("app.py", "import helper\nraise OSError('broken')\n")
    done = run(code, "--folder")
    assert done.returncode == 70 and '"%s/app.py", line 2' % code.root in done.stderr, done.stderr


def test_what_was_not_found_by_reading(code):
    code.write("app.py", "__import__('hel' + 'per')\n")
    done = run(code)
    assert done.returncode == 70 and "helper is in %s, but was not found to be imported" % code.root in done.stderr, done.stderr
    assert run(code, "--folder").returncode == 66  # all is there, and there is no `app`


def test_refusals_say_what_helps(code):
    code.write("big.bin", "x" * 2000000)
    done = run(code, "--folder")
    assert done.returncode == 78 and "big.bin" in done.stderr and "code: live" in done.stderr and "code_exclude" in done.stderr
    done = run(code, "--folder", "--exclude=*.bin", target="app.py")
    assert done.stdout.startswith("@code\tsha256:")


def test_files_that_are_called_as_modules_of_python(code):
    """They are copied, and do not keep the code from being read."""
    for name in ("argparse.py", "hashlib.py", "stat.py"):
        code.write(name, "raise OSError('not this one')\n")
    done = run(code, "--folder")
    assert done.stdout.startswith("@code\tsha256:") and "anyserve/code/pin.py" not in done.stderr, done.stderr


@pytest.mark.parametrize("where", ["stdlib", "purelib", "platlib", "user", "named", "link"])
def test_installed_packages_beneath_the_folder_are_used_as_they_are(code, where, monkeypatch):
    """As with the working folder /, or $HOME with `pip install --user`."""
    folder = code.root / "lib" / ("dist-packages" if where == "named" else "python3")
    code.write("app.py", "import helper, installed, mine\n")
    code.write(os.path.join(folder, "installed.py"))
    code.write("src/mine.py")
    first = folder
    if where in ("stdlib", "purelib", "platlib"):
        monkeypatch.setattr("sysconfig.get_paths", lambda: {where: str(folder)})
    elif where == "user":
        monkeypatch.setattr("site.getusersitepackages", lambda: str(folder))
    elif where == "link":
        first = code.root / "also"
        monkeypatch.setattr("sysconfig.get_paths", lambda: {"stdlib": str(folder)})
        os.symlink("lib/python3", first)
    monkeypatch.setattr(sys, "path", [str(first), str(code.root / "src"), *sys.path])
    assert code.find(folder=False)[0] == ["app.py", "helper.py", "src/mine.py"]


def test_the_folder_of_a_target_is_never_an_installed_one(code, monkeypatch):
    """/usr/lib/app/prog.py, with Python in /usr, and a program in the folder of packages."""
    monkeypatch.setattr(sys, "prefix", str(code.root))
    monkeypatch.setattr("sysconfig.get_paths", lambda: {"purelib": str(code.root / "lib")})
    code.write("lib/prog.py", "import near\n")
    code.write("lib/near.py")
    assert code.find("lib/prog.py", folder=False)[0] == ["lib/near.py", "lib/prog.py"]


def test_the_working_folder_is_the_root(code):
    """systemd's default."""
    code.write("app.py", "import json, numpy, helper\n")
    done = run(code, "--known=x", target=str(code.root / "app.py"), cwd="/")
    assert done.stdout.startswith("@code\tsha256:"), done.stderr
    (copy,) = code.store.iterdir()
    # The superuser's Python keeps its compiled code beside the copy's files.
    assert sorted(p.name for p in copy.rglob("*") if p.is_file() and p.suffix != ".pyc") == ["app.py", "helper.py"]


def described(code, *options, path, target="app:app"):
    """What pin says with these entries in PYTHONPATH, and the environment."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(PACKAGE), *map(str, path)])}
    done = subprocess.run([sys.executable, "-m", "anyserve.code.pin", "--store=" + str(code.store), "--max-bytes=1000000", "--max-files=100",
                           *options, target], capture_output=True, text=True, timeout=120, env=env)
    assert done.returncode == 0, done.stderr
    return done, env


APP_OF_ENTRIES = "import mypkg, sys\nprint('from', mypkg.__file__)\n" + APP


@pytest.mark.parametrize("through", ["name", "link", "pth"])
def test_an_absolute_entry_of_the_path_is_pinned(code, through, tmp_path):
    """PYTHONPATH=/proj/src, or the .pth file of an editable install."""
    code.write("app.py", APP_OF_ENTRIES)
    package = code.write("src/mypkg/__init__.py", "")
    os.symlink(code.root, tmp_path / "current")
    path = [(tmp_path / "current" if through == "link" else code.root) / "src"]
    if through == "pth":
        (tmp_path / "installed").mkdir()
        (tmp_path / "installed" / "mypkg.pth").write_text(str(code.root / "src") + "\n")
        code.write("helper.py", "X = 1\n")
        (tmp_path / "start").mkdir()
        (tmp_path / "start" / "sitecustomize.py").write_text("import site\nsite.addsitedir(%r)\n" % str(tmp_path / "installed"))
        path = [tmp_path / "start"]
    done, env = described(code, path=path)
    copy = code.store / done.stdout.split(":")[1].split("\n")[0]
    assert (copy / "src" / "mypkg" / "__init__.py").exists()
    assert "from %s/src/mypkg/__init__.py" % copy in done.stderr, done.stderr
    package.write_text("raise OSError('edited')\n")
    again = subprocess.run([sys.executable, "-m", "anyserve.worker", "app:app", "--working-dir=/", "--source=" + str(code.root),
                            "--describe=lines"], capture_output=True, text=True, timeout=120, env=env, cwd=copy)
    assert again.returncode == 0 and "from %s/src/mypkg/__init__.py" % copy in again.stderr, again.stderr


@pytest.mark.parametrize("target", ["else/prog.py", "./else/../else/prog.py"])
def test_an_entry_of_the_path_beside_a_file_elsewhere_is_pinned(code, target, tmp_path):
    """The file is outside of the working folder: its own folder is what is copied."""
    (tmp_path / "else" / "src").mkdir(parents=True)
    (tmp_path / "else" / "prog.py").write_text(APP_OF_ENTRIES.replace("helper, ", ""))
    (tmp_path / "else" / "src" / "mypkg.py").write_text("")
    done, env = described(code, path=[tmp_path / "else" / "src"], target="../" + target)
    copy = code.store / done.stdout.split(":")[1].split("/")[0]
    assert "from %s/src/mypkg.py" % copy in done.stderr, done.stderr
    (tmp_path / "else" / "src" / "mypkg.py").write_text("raise OSError('edited')\n")
    again = subprocess.run([sys.executable, "-m", "anyserve.worker", "prog.py", "--working-dir=/", "--describe=lines",
                            "--source=%s/../%s" % (code.root, target)],
                           capture_output=True, text=True, timeout=120, env=env, cwd=copy)
    assert again.returncode == 0 and "from %s/src/mypkg.py" % copy in again.stderr, again.stderr


def test_installed_packages_in_a_copy_are_used_as_they_are(code):
    """--folder copies them; they belong to the interpreter all the same. What the copy lacks stays what it was."""
    code.write("app.py", APP_OF_ENTRIES)
    code.write("lib/site-packages/mypkg.py")
    code.write(".venv/pyvenv.cfg")
    code.write(".venv/other/otherpkg.py")
    code.write("app.py", "import otherpkg\nprint('and', otherpkg.__file__)\n" + APP_OF_ENTRIES)
    done, _ = described(code, "--folder", path=[code.root / "lib" / "site-packages", code.root / ".venv" / "other"])
    assert "from %s/lib/site-packages/mypkg.py" % code.root in done.stderr, done.stderr
    assert "and %s/.venv/other/otherpkg.py" % code.root in done.stderr, done.stderr


def test_a_state_folder_that_is_the_code_s_folder(code):
    """--state-dir is working_dir: the store is no part of its own copies, nor is what the server writes beside it."""
    code.store = code.root / "code"
    code.write("sub/state.db")
    first, names = code.copy()
    assert names == ["app.py", "helper.py", "sub", "sub/state.db"]
    for name in ("state.db", "state.db-wal", "state.db-shm", "server.log", "server.log.1"):
        code.write(name, "of the server")
    assert code.copy() == (first, names) and os.listdir(code.store) == [first]
    assert code.find(folder=False)[0] == ["app.py", "helper.py"]


def test_a_store_in_the_code_s_folder(code):
    """Its files are the application's where the state folder is another one."""
    code.write("state.db", "of the application")
    assert "state.db" in code.copy()[1]


@pytest.mark.parametrize("folder", [False, True])
def test_a_config_map(code, folder):
    """As Kubernetes mounts it: each name is a link through a link to the folder of the day."""
    for name in ("app.py", "helper.py"):
        os.unlink(code.root / name)
        os.symlink("..data/" + name, code.root / name)
    os.symlink("..2024_01", code.root / "..data")
    code.write("..2024_01/app.py", "import helper\nopen(__file__ + 'labels.txt')\n")
    code.write("..2024_01/helper.py")
    all_ = ["..2024_01", "..2024_01/app.py", "..2024_01/helper.py", *(["..data"] if folder else []), "app.py", "helper.py"]
    for target in ("app:app", "app.py"):
        value, names = code.copy(target, folder=folder)
        assert names == all_
        assert os.readlink(code.store / value / "app.py") == "..2024_01/app.py"
        assert (code.store / value / "app.py").read_text().startswith("import helper")


def test_links_to_what_is_elsewhere_in_the_folder(code):
    """What a link leads to is copied, read for imports, and what it names by its __file__ is copied."""
    os.unlink(code.root / "app.py")
    os.symlink("versions/v1/app.py", code.root / "app.py")
    code.write("versions/v1/app.py", "import helper, pkg, part.inner\nopen(__file__), 'labels.txt'\n")
    code.write("versions/v1/labels.txt")
    code.write("versions/v1/unrelated.txt")
    os.symlink("versions/pkg", code.root / "pkg")
    code.write("versions/pkg/__init__.py", "import third\n")
    os.symlink("..", code.root / "versions" / "pkg" / "up")  # no way around in a circle
    code.write("third.py")
    code.write("part/__init__.py")
    os.symlink("../shared/inner", code.root / "part" / "inner")
    code.write("shared/inner/__init__.py", "import fourth\n")
    code.write("fourth.py")
    found = code.find(folder=False)[0]
    for name in ("app.py", "versions/v1/app.py", "versions/v1/labels.txt", "pkg", "versions/pkg/__init__.py", "third.py", "helper.py",
                 "part/inner", "shared/inner/__init__.py", "fourth.py"):
        assert name in found, name
    value, _ = code.copy(folder=False)
    assert (code.store / value / "pkg" / "__init__.py").read_text() == "import third\n"
    again, _ = code.copy(folder=False)
    assert again == value


def test_a_link_to_what_is_excluded_is_refused_without_a_folder(code):
    os.unlink(code.root / "app.py")
    code.write(".git/app.py")
    os.symlink(".git/app.py", code.root / "app.py")
    assert "app.py is a symbolic link to .git/app.py, which is not copied" in code.refused(folder=False)


def test_a_file_that_would_be_read_as_an_option(code):
    code.write("-x.py")
    assert "its name begins with '-'" in code.refused("./-x.py")
