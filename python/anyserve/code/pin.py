"""``python -m anyserve.code.pin --store=DIR … TARGET``: copies an application's code, then describes the copy.

Runs where the code is, before anything of it is imported. What is copied: the whole folder (``--folder``, when the
deployment file has a working_dir), or else the target's module and what it imports from beside it, found by reading the
sources. The copy is named by the SHA-256 of what is in it, so the same content is stored once. The first line on stdout
is ``TAB code TAB sha256:HEX`` (with ``/FILE`` for a target that is a file); then this process becomes
``python -m anyserve.worker TARGET --describe=lines`` as a replica would start from the copy. With ``--known`` that value
it ends there: what the code declares is known already.
"""

from __future__ import annotations

import os
import sys

if __name__ == "__main__" and sys.path and sys.path[0] in ("", os.getcwd()):
    del sys.path[0]  # a file there may shadow a module of Python; the worker program reports that

import argparse  # noqa: E402
import ast  # noqa: E402
import fnmatch  # noqa: E402
import hashlib  # noqa: E402
import shutil  # noqa: E402
import stat  # noqa: E402
import tempfile  # noqa: E402
from importlib.machinery import PathFinder  # noqa: E402
from typing import Callable, Dict, Iterable, Iterator, List, NoReturn, Optional, Set, Tuple  # noqa: E402

from ..stop import EX_DECLARATION, Parser  # noqa: E402
from . import search_path  # noqa: E402

FORMAT = b"anyserve code 1\n"
PART = 1 << 20  # bytes that are read at once
TEMPORARY = ".tmp-"  # prefix of a copy that is not complete; the server removes leftovers
# Never part of an application: caches, repositories, environments (also known by their pyvenv.cfg), editors' leftovers.
EXCLUDED = (
    "__pycache__", "*.pyc", "*.pyo", ".git", ".hg", ".svn", ".venv", "venv", "node_modules", ".mypy_cache",
    ".pytest_cache", ".ruff_cache", ".tox", ".nox", ".ipynb_checkpoints", ".DS_Store", "*.swp", "*~", ".#*",
)  # fmt: skip
# Files that the server writes into its state folder, beside the store: left out if that folder itself is copied.
STATE = ("state.db*", "server.log*")
ADVICE = (
    "Leave files out with `code_exclude`, put the code into a folder of its own and name that as `working_dir`, or\n"
    "have the files used as they are with `code: live`."
)


class Refused(Exception):
    """The code cannot be copied; the text is for the user."""


def _size(n: int) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if n < 10240 or unit == "GiB":
            return "%d %s" % (n, unit)
        n >>= 10
    raise AssertionError


class Tree:
    """What is to be copied of a folder: relative path → kind: "d" folder, "f" file, "x" executable file, "l" link."""

    def __init__(self, root: str, exclude: Iterable[str], separate: Iterable[str], max_bytes: int,
                 max_files: int) -> None:  # fmt: skip
        self.root = root
        self.entries: Dict[str, str] = {}
        self._exclude = list(EXCLUDED) + [p.rstrip("/") for p in exclude]
        self._separate = [os.path.realpath(p) for p in separate]
        self._has_state = os.path.realpath(root) in self._separate
        self._max_bytes, self._max_files = max_bytes, max_files
        self._bytes = self._files = 0
        self._largest = (0, "")

    def path(self, rel: str) -> str:
        return os.path.join(self.root, rel)

    def real(self, rel: str) -> str:
        """Where a link within the root leads to, relative to the root."""
        return os.path.relpath(os.path.realpath(self.path(rel)), os.path.realpath(self.root))

    def _refuse(self, rel: str, why: str) -> None:
        raise Refused("%s %s" % (self.path(rel), why))

    def is_excluded(self, rel: str) -> bool:
        """Whether this entry is excluded, by its name or place. Its parent folders are not checked."""
        name = os.path.basename(rel)
        for p in self._exclude:
            if fnmatch.fnmatchcase(rel, p.lstrip("/")) if "/" in p else fnmatch.fnmatchcase(name, p):
                return True
        if self._has_state and rel == name and any(fnmatch.fnmatchcase(name, p) for p in STATE):
            return True
        path = self.path(rel)
        return os.path.isfile(os.path.join(path, "pyvenv.cfg")) or os.path.realpath(path) in self._separate

    def is_beneath_excluded(self, rel: str) -> bool:
        parts = rel.split(os.sep)
        return any(self.is_excluded(os.sep.join(parts[:i])) for i in range(1, len(parts) + 1))

    def _count(self, rel: str, size: int) -> None:
        self._files += 1
        self._bytes += size
        self._largest = max(self._largest, (size, rel))
        if self._files > self._max_files:
            raise Refused("the code in %s has more than %d files (--max-code-files)" % (self.root, self._max_files))
        if self._bytes > self._max_bytes:
            raise Refused("the code in %s has more than %s (--max-code-bytes); the largest file found is %s, %s"
                          % (self.root, _size(self._max_bytes), self._largest[1], _size(self._largest[0])))  # fmt: skip

    def _add_link(self, rel: str) -> None:
        to = os.path.realpath(self.path(rel))
        if not os.path.exists(to):
            self._refuse(rel, "is a symbolic link that leads nowhere")
        if self.real(rel).split(os.sep)[0] == os.pardir:
            self._refuse(rel, "is a symbolic link out of what is copied, to %s" % to)
        self.entries[rel] = "l"
        self._count(rel, 0)
        to = self.real(rel)
        if to != "." and not self.is_beneath_excluded(to):
            self.add(to)  # else link_target refuses the link later

    def add(self, rel: str) -> None:
        """Adds a file, or a folder with its content, without what is excluded."""
        if rel in self.entries or (rel != "." and self.is_excluded(rel)):
            return
        try:
            st = os.lstat(self.path(rel))
            if stat.S_ISLNK(st.st_mode) and rel != ".":
                self._add_link(rel)
            elif stat.S_ISREG(st.st_mode):
                self._count(rel, st.st_size)
                self.entries[rel] = "x" if st.st_mode & stat.S_IXUSR else "f"
            elif os.path.isdir(self.path(rel)):
                self._add_folder(rel)
            else:
                self._refuse(rel, "is neither a file nor a folder")
        except OSError as e:
            self._refuse(rel, "cannot be read: %s" % e.strerror)

    def _add_folder(self, rel: str) -> None:
        if rel != ".":
            self.entries[rel] = "d"
            self._count(rel, 0)
        for name in sorted(os.listdir(self.path(rel))):
            self.add(name if rel == "." else os.path.join(rel, name))

    def link_target(self, rel: str) -> str:
        """The target of a link in the copy: relative, so that the copy may be anywhere."""
        to = self.real(rel)
        if to != "." and not (to in self.entries or any(e.startswith(to + os.sep) for e in self.entries)):
            self._refuse(rel, "is a symbolic link to %s, which is not copied" % to)
        return os.path.relpath(to, os.path.dirname(rel) or ".")


# --- what a module imports from beside it ---


class Imports:
    """Finds the modules of a tree that the target imports, by reading their sources."""

    def __init__(self, tree: Tree, search: List[str]) -> None:
        self._tree = tree
        self._search = search
        self._tops: Set[str] = {"anyserve"}
        self._read: Set[str] = set()

    def _rel(self, path: str) -> str:
        return os.path.relpath(path, self._tree.root)

    def _locate(self, top: str) -> Optional[Tuple[str, bool]]:
        """(path, whether it is a folder) of a module in the tree; None: it is elsewhere, or nowhere."""
        for folder in self._search:
            spec = PathFinder.find_spec(top, [folder])
            if spec is None:
                continue
            if spec.origin is not None and spec.has_location:
                return (os.path.dirname(spec.origin), True) if spec.submodule_search_locations else (spec.origin, False)
            # a folder without __init__.py counts only if no other module has the name
            other = PathFinder.find_spec(top)
            if top not in sys.builtin_module_names and (other is None or other.origin is None):
                return os.path.join(folder, top), True
        return None

    def need(self, top: str) -> bool:
        """Adds a top-level module by its name. Whether it is in the tree."""
        if top in self._tops:
            return False
        self._tops.add(top)
        found = self._locate(top)
        if found is None or self._tree.is_beneath_excluded(self._rel(found[0])):
            return False
        self.need_path(*found)
        return True

    def need_path(self, path: str, is_folder: bool) -> None:
        rel = self._rel(path)
        known = len(self._tree.entries)
        self._tree.add(rel)
        files = [rel, self._tree.real(rel), *list(self._tree.entries)[known:]]  # including the targets of links
        if is_folder:
            files += [e for e in self._tree.entries for f in files[:2] if e.startswith(f + os.sep)]
        for f in files:
            if f.endswith(".py"):
                self._scan(f)

    def _scan(self, rel: str) -> None:
        if rel in self._read:
            return
        self._read.add(rel)
        try:
            with open(self._tree.path(rel), "rb") as f:
                source = ast.parse(f.read())
        except (OSError, SyntaxError, ValueError, RecursionError):
            return  # the error appears when it is imported
        texts: List[str] = []
        uses_file = False
        for node in ast.walk(source):
            if isinstance(node, ast.Import):
                for name in node.names:
                    self.need(name.name.partition(".")[0])
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                self.need(node.module.partition(".")[0])
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(node.value)
            elif isinstance(node, ast.Name) and node.id == "__file__":
                uses_file = True
        if uses_file:
            self._add_named(rel, texts)

    def _add_named(self, rel: str, texts: List[str]) -> None:
        """Adds files and folders that a module may find by its __file__: those beside or above it whose names are in its
        source."""
        for text in texts:
            if not text or len(text) > 255 or "\0" in text or "\n" in text or os.path.isabs(text):
                continue
            folder = os.path.dirname(rel)
            while True:
                found = os.path.normpath(os.path.join(folder, text))
                inside = found.split(os.sep)[0] not in (os.curdir, os.pardir) and not (rel + os.sep).startswith(found + os.sep)
                if inside and os.path.lexists(self._tree.path(found)) and not self._tree.is_beneath_excluded(found):
                    self._tree.add(found)
                if not folder:
                    break
                folder = os.path.dirname(folder)


# --- the copy ---


def _parts(path: str) -> Iterator[bytes]:
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with open(fd, "rb", buffering=0) as f:
        before = os.fstat(fd)
        while True:
            part = f.read(PART)
            if not part:
                break
            yield part
        after = os.fstat(fd)
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        raise Refused("%s changes while it is copied; deploy again" % path)


def _content(path: str, consume: Callable[[bytes], object]) -> bytes:
    """The hash of a file; passes its bytes to consume."""
    digest = hashlib.sha256()
    parts = _parts(path)
    while True:
        try:
            part = next(parts, None)
        except OSError as e:
            raise Refused("%s cannot be read: %s" % (path, e.strerror)) from None
        if part is None:
            return digest.digest()
        digest.update(part)
        consume(part)


def _hash(tree: Tree, content: Callable[[str], bytes]) -> str:
    digest = hashlib.sha256(FORMAT)
    for rel in sorted(tree.entries, key=os.fsencode):
        kind = tree.entries[rel]
        what = b""
        if kind == "l":
            what = hashlib.sha256(os.fsencode(tree.link_target(rel))).digest()
        elif kind != "d":
            what = content(rel)
        digest.update(kind.encode() + what + b"%d:" % len(os.fsencode(rel)) + os.fsencode(rel))
    return digest.hexdigest()


def _write(tree: Tree, to: str) -> str:
    """Copies the tree into the folder `to`. Returns the hash of what was written."""
    for rel in sorted(tree.entries):  # a folder comes before what is in it
        os.makedirs(os.path.dirname(os.path.join(to, rel)), exist_ok=True)
        if tree.entries[rel] == "d":
            os.makedirs(os.path.join(to, rel), exist_ok=True)
        elif tree.entries[rel] == "l":
            os.symlink(tree.link_target(rel), os.path.join(to, rel))

    def copy(rel: str) -> bytes:
        mode = 0o500 if tree.entries[rel] == "x" else 0o400
        fd = os.open(os.path.join(to, rel), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with open(fd, "wb") as f:
            return _content(tree.path(rel), f.write)

    value = _hash(tree, copy)
    for folder, _, files in os.walk(to):
        for name in files:
            if not os.path.islink(os.path.join(folder, name)):
                _sync(os.path.join(folder, name))
        _sync(folder)
    return value


def _sync(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def store(tree: Tree, folder: str) -> str:
    """Stores a copy of the tree in `folder`, unless it has one. Returns the hash, which is its name."""
    value = _hash(tree, lambda rel: _content(tree.path(rel), lambda part: None))
    if os.path.isdir(os.path.join(folder, value)):
        return value
    mask = os.umask(0o077)
    temporary = None
    try:
        os.makedirs(folder, exist_ok=True)
        temporary = tempfile.mkdtemp(prefix=TEMPORARY, dir=folder)
        value = _write(tree, temporary)
        try:
            os.rename(temporary, os.path.join(folder, value))
        except OSError:
            if not os.path.isdir(os.path.join(folder, value)):
                raise
        _sync(folder)
    finally:
        os.umask(mask)
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)
    return value


# --- the target ---


def _search_path(root: str, first: Iterable[str]) -> Iterator[str]:
    """The folders beneath root that are searched for modules, as a replica will search the copy."""
    seen = set()
    folders = search_path.installed()
    ours = [*first, root]
    for p in [*ours, *(p for p in sys.path if not search_path.is_installed(os.path.join(root, p), folders))]:
        rel = search_path.inside(os.path.join(root, p), root)
        if rel is not None and rel not in seen:
            seen.add(rel)
            yield os.path.normpath(os.path.join(root, rel))


def find(args: argparse.Namespace) -> Optional[Tuple[Tree, str]]:
    """What to copy, and the target's file in it ("" for a module). None: there is nothing to copy, because the target is
    an installed package, or does not exist."""
    here = os.getcwd()
    head, _ = search_path.split(args.target)
    is_file = search_path.is_file(head)
    path = os.path.join(os.path.realpath(os.path.dirname(os.path.join(here, head))), os.path.basename(head))
    root = here if not is_file or search_path.beneath(path, here) else os.path.dirname(path)
    state = os.path.dirname(args.store)
    tree = Tree(root, args.exclude, [args.store, os.path.join(state, "pickles"), state], args.max_bytes, args.max_files)
    if is_file and not os.path.isfile(path):
        return None
    file = os.path.relpath(path, root) if is_file else ""
    search = [p for p in _search_path(root, [os.path.dirname(path)] if is_file else [])
              if p == root or not tree.is_beneath_excluded(os.path.relpath(p, root))]  # fmt: skip
    imports = Imports(tree, search)
    if not is_file and imports._locate(head.partition(".")[0]) is None:
        return None
    if args.folder and root == here:
        tree.add(".")
    elif is_file:
        imports.need_path(path, False)
    else:
        imports.need(head.partition(".")[0])
    if any(c in file for c in "\t\r\n"):
        raise Refused("%r cannot be served from a copy: its name has a tab or a line feed" % path)
    if file.startswith("-"):
        raise Refused("%r cannot be served from a copy: its name begins with '-'" % path)
    if is_file and file not in tree.entries:
        raise Refused("%s is excluded from the copy of the code" % path)
    return (tree, file) if tree.entries else None


def _number(text: str) -> int:
    n = int(text)
    if n < 0:
        raise argparse.ArgumentTypeError("%d is negative" % n)
    return n


def parse(argv: Optional[List[str]] = None) -> argparse.Namespace:
    p = Parser("python -m anyserve.code.pin", __doc__)
    p.add_argument("--store", required=True, metavar="DIR", help="where copies are stored")
    p.add_argument("--folder", action="store_true", help="copy all of the current folder")
    p.add_argument("--max-bytes", type=_number, required=True, metavar="N", help="most bytes of a copy")
    p.add_argument("--max-files", type=_number, required=True, metavar="N", help="most files and folders of a copy")
    p.add_argument("--exclude", action="append", default=[], metavar="PATTERN", help="left out; a name, or a path with /")
    p.add_argument("--application", default="default", help="the application that the target is")
    p.add_argument("--known", help="what this code declares is known: end after copying it")
    return p.parse_args(argv)


def describe(target: str, application: str, copy: Optional[str], root: str, file: str) -> NoReturn:
    """Replaces this process by the worker program, which describes what the target declares."""
    argv = [sys.executable, "-m", "anyserve.worker", target, "--application=" + application, "--describe=lines"]
    if copy is not None:
        argv += ["--working-dir=" + os.getcwd(), "--code-from=" + root,
                 "--source=" + os.path.join(root, file)]  # fmt: skip
        os.chdir(copy)
    sys.stdout.flush()
    os.execv(sys.executable, argv)


def main(argv: Optional[List[str]] = None) -> int:
    args = parse(argv)
    try:
        found = find(args)
        if found is None:
            describe(args.target, args.application, None, "", "")
        tree, file = found
        value = store(tree, args.store)
    except Refused as e:
        print("anyserve: the code cannot be copied: %s\n%s" % (e, ADVICE), file=sys.stderr)
        return EX_DECLARATION
    except OSError as e:
        print("anyserve: the code cannot be copied to %s: %s\n%s" % (args.store, e, ADVICE), file=sys.stderr)
        return EX_DECLARATION
    copy = os.path.join(args.store, value)
    code_value = "sha256:" + value + ("/" + file if file else "")
    print("@code\t" + code_value)
    if code_value != args.known:
        describe(file + search_path.split(args.target)[1] if file else args.target, args.application, copy, tree.root, file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
