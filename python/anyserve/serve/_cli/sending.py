"""Sends the applications of a config file to a server."""

from __future__ import annotations

import json
import re
import time
from typing import Any, Dict, List, Mapping, Sequence, Set, Tuple

from .._driver.client import ControlError
from .._driver.server import Server
from .config_file import Config
from .say import refuse
from .yaml_file import Document, Path

__all__ = ["send"]

BUSY_PAUSE = 0.05  # seconds until a deploy is tried again that met another one
BUSY_TIMEOUT = 600.0
PATH = "/api/serve/applications/"
_PLACE = re.compile(r"^request:(\d+)(:\d+)?: ?", re.MULTILINE)


class _Text:
    """JSON with one value on each line, so that the server's complaints about a line are about one value."""

    def __init__(self) -> None:
        self.lines: List[str] = []
        self.paths: List[Path] = []  # by line

    def line(self, text: str, path: Path) -> None:
        self.lines.append(text)
        self.paths.append(path)

    def add(self, value: Any, path: Path, before: str = "", after: str = "") -> None:
        items: Sequence[Tuple[Any, Any]]
        if isinstance(value, Mapping) and value:
            items, ends = list(value.items()), "{}"
        elif isinstance(value, list) and value:
            items, ends = list(enumerate(value)), "[]"
        else:
            self.line(before + json.dumps(value) + after, path)
            return
        self.line(before + ends[0], path)
        for i, (key, item) in enumerate(items):
            name = json.dumps(str(key)) + ": " if ends == "{}" else ""
            self.add(item, (*path, key), name, "," if i + 1 < len(items) else "")
        self.line(ends[1] + after, path)

    def content(self) -> bytes:
        return "\n".join(self.lines).encode()


def _in_places_of(doc: Document, paths: Sequence[Path], text: str) -> str:
    """The server's complaint with the places of the file that the user has written."""

    def place(m: "re.Match[str]") -> str:
        line = int(m[1])
        return doc.place(paths[line - 1] if 0 < line <= len(paths) else ()) + ": "

    return _PLACE.sub(place, text).rstrip()


def _names_of(server: Server, text: _Text) -> Dict[str, Set[str]]:
    """The deployments of each application: the file need not list them."""
    names: Dict[str, Set[str]] = {}
    changes = server.client.request("PUT", PATH + "?dry_run=1", text.content())["changes"]
    for row in changes:
        if row.get("step") != "removed":
            names.setdefault(row["application"], set()).add(row["deployment"])
    for name, application in server.client.status()["applications"].items():
        if not any(row["application"] == name and row.get("step") == "removed" for row in changes):
            names.setdefault(name, set()).update(application["deployments"])
    return names


def _with_logging(config: Config, names: Mapping[str, Set[str]]) -> List[Dict[str, Any]]:
    """An application's logging_config is that of its deployments which have none of their own."""
    out = []
    for a in config.applications:
        logging = config.logging.get(a["name"])
        if logging:
            listed = [{"logging_config": logging, **d} for d in a.get("deployments", [])]
            there = {d["name"] for d in listed}
            more = [{"name": n, "logging_config": logging} for n in sorted(names.get(a["name"], set()) - there)]
            a = {**a, "deployments": listed + more}
        out.append(a)
    return out


def _text_of(config: Config, applications: Sequence[Mapping[str, Any]]) -> _Text:
    file: Dict[str, Any] = {"applications": list(applications)}
    if config.capacity is not None:
        file["target_capacity"] = config.capacity
    text = _Text()
    text.add(file, ())
    return text


def _once(server: Server, config: Config) -> int:
    """One try: the generation."""
    status = server.client.status()
    # as in Ray, what programs have deployed by serve.run stays: a file replaces what files have deployed
    mine = {a["name"] for a in config.applications}
    programs = [row["deployed_app_config"] for name, row in status["applications"].items()
                if row.get("source") == "imperative" and name not in mine]  # fmt: skip
    applications: List[Dict[str, Any]] = config.applications
    text = _text_of(config, [*applications, *programs])
    try:
        if config.logging:
            text = _text_of(config, [*_with_logging(config, _names_of(server, text)), *programs])
        target = "%s?generation=%d" % (PATH, status["generation"])
        return int(server.client.request("PUT", target, text.content())["generation"])
    except ControlError as e:
        if e.status == 400:
            refuse(_in_places_of(config.document, text.paths, e.text))
        raise


def send(server: Server, config: Config) -> int:
    """The server serves these applications, and no others but those of programs, when all code has been loaded once: the
    generation. Refused: what is wrong with them, with places."""
    until = time.monotonic() + BUSY_TIMEOUT
    while True:
        try:
            return _once(server, config)
        except ControlError as e:
            if e.status not in (409, 412) or time.monotonic() > until:
                refuse(e.text)
        time.sleep(BUSY_PAUSE)
