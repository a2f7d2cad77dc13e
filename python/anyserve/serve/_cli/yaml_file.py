"""YAML: a file with the place of each value, and what commands print."""

from __future__ import annotations

import json
import re
from types import ModuleType
from typing import Any, Dict, List, Mapping, Tuple

from .say import refuse

__all__ = ["Document", "dump", "load", "path_text"]

Path = Tuple[Any, ...]  # keys and indices from the top
MAX_DEPTH = 100
MAX_VALUES = 1_000_000  # aliases can make a short file a large one
_ANSI = re.compile(r"\x1b(?:[@-Z\\-_]|\[[0-?]*[ -/]*[@-~])")


def yaml() -> ModuleType:
    try:
        import yaml as module  # type: ignore[import-untyped]
    except ImportError:
        refuse("this command reads and writes YAML and needs PyYAML: pip install 'anyserve[serve]'")
    found: ModuleType = module
    return found


def path_text(path: Path) -> str:
    """`applications[0].deployments[1].name`."""
    text = ""
    for part in path:
        text += "[%d]" % part if isinstance(part, int) else ".%s" % part if text else str(part)
    return text


class Document:
    """A file's value, where each part of it stands, and what is wrong with it."""

    def __init__(self, name: str, value: Any, marks: Dict[Path, Tuple[int, int]]) -> None:
        self.name, self.value = name, value
        self._marks = marks
        self._problems: List[Tuple[Tuple[int, int], str]] = []

    def place(self, path: Path) -> str:
        """`FILE:LINE:COLUMN` of a key or item, or of the next one around it that the file has. FILE only, if there are no
        places."""
        return "%s:%d:%d" % (self.name, *self._mark(path)) if self._marks else self.name

    def _mark(self, path: Path) -> Tuple[int, int]:
        while path and path not in self._marks:
            path = path[:-1]
        return self._marks.get(path, (1, 1))

    @property
    def is_wrong(self) -> bool:
        return bool(self._problems)

    def wrong(self, path: Path, text: str) -> None:
        where = path_text(path)
        self._problems.append((self._mark(path), "%s: %s%s" % (self.place(path), where + ": " if where else "", text)))

    def check(self) -> None:
        """Refused with all problems, if there are any."""
        if self._problems:
            refuse("\n".join(text for _, text in sorted(self._problems, key=lambda p: p[0])))


class _Reader:
    def __init__(self, name: str, module: ModuleType, loader: Any) -> None:
        self.name, self.yaml, self.loader = name, module, loader
        self.marks: Dict[Path, Tuple[int, int]] = {}
        self.left = MAX_VALUES

    def fail(self, mark: Any, text: str) -> None:
        refuse("%s:%d:%d: %s" % (self.name, mark.line + 1, mark.column + 1, text))

    def read(self, node: Any, path: Path) -> Any:
        self.left -= 1
        if len(path) > MAX_DEPTH or self.left < 0:
            self.fail(node.start_mark, "nested too deep, or too many values")
        self.marks.setdefault(path, (node.start_mark.line + 1, node.start_mark.column + 1))
        if isinstance(node, self.yaml.SequenceNode):
            return [self.read(item, (*path, i)) for i, item in enumerate(node.value)]
        if not isinstance(node, self.yaml.MappingNode):
            return self.loader.construct_object(node)
        self.loader.flatten_mapping(node)  # `<<`
        out: Dict[Any, Any] = {}
        for key_node, value_node in node.value:
            key = self.read(key_node, (*path, "?"))
            self.marks.pop((*path, "?"), None)
            if not isinstance(key, (str, int, float, bool)):
                self.fail(key_node.start_mark, "a key is a text, not %r" % (key,))
            if key in out:
                self.fail(key_node.start_mark, "the key %r is there twice" % key)
            self.marks[(*path, key)] = (key_node.start_mark.line + 1, key_node.start_mark.column + 1)
            out[key] = self.read(value_node, (*path, key))
        return out


def load(path: str) -> Document:
    """Reads a file. Refused: it cannot be read, or is no YAML."""
    module = yaml()
    try:
        with open(path, encoding="utf-8") as f:
            loader = module.SafeLoader(f.read())
    except (OSError, UnicodeDecodeError) as e:
        refuse("cannot read %s: %s" % (path, getattr(e, "strerror", None) or e))
    except module.YAMLError as e:
        refuse("%s: %s" % (path, e))
    try:
        node = loader.get_single_node()
        reader = _Reader(path, module, loader)
        value = None if node is None else reader.read(node, ())
    except module.YAMLError as e:
        mark = getattr(e, "problem_mark", None)
        where = "%s:%d:%d" % (path, mark.line + 1, mark.column + 1) if mark else path
        refuse("%s: %s" % (where, getattr(e, "problem", None) or e))
    except RecursionError:
        refuse("%s: nested too deep" % path)
    finally:
        loader.dispose()
    return Document(path, value, reader.marks)


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return _ANSI.sub("", value)
    if isinstance(value, Mapping):
        return {k: _clean(v) for k, v in value.items()}
    return [_clean(v) for v in value] if isinstance(value, (list, tuple)) else value


def dump(value: Mapping[str, Any]) -> str:
    """YAML with an empty line between the keys of the top."""
    module = yaml()

    class Dumper(module.SafeDumper):  # type: ignore[misc, name-defined]
        pass

    def text(dumper: Any, data: str) -> Any:
        style = "|" if len(data.splitlines()) > 1 else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", data, style=style)

    Dumper.add_representer(str, text)
    plain = _clean(json.loads(json.dumps(value)))  # no anchors for what occurs twice
    parts: List[str] = [module.dump({k: v}, Dumper=Dumper, default_flow_style=False, sort_keys=False, width=80)
                        for k, v in plain.items()]  # fmt: skip
    return "\n".join(parts) if parts else "{}\n"
