#!/usr/bin/env python3
"""Checks what the pages (*.md) point to: links, their anchors, and files of this repository named in backticks.

A link is checked unless it leads elsewhere (https:, mailto:). A name in backticks is checked when it begins with a layer of
src/ (`core/queue/queue`, `edge/infer/infer_grpc.c`) or with a folder of the repository that holds code (`tests/sim`), or
when it is that of a test or a file of tests (`t_queue`, `test_grpc`). A trailing `*` stands for several files. Names right
behind a C file (`edge/conn/conn.c` `on_readable`, `as_conn_received`) must be in that file. Prints every fault; exit code 1 if there is one.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\]\(([^)\s]+)\)")
NAMED = re.compile(r"`((?:[a-z_]+/)+[a-z0-9_.*]+)`")
TEST = re.compile(r"`((?:t|test)_[a-z0-9_]+\*?)`")
IN_FILE = re.compile(r"`([a-z_/0-9]+\.[ch])` (`[a-z_0-9]+`(?:, `[a-z_0-9]+`)*)")
LAYERS = {p.name for p in (ROOT / "src").iterdir() if p.is_dir()}
FOLDERS = {"src", "python", "tests", "tools", "docs", "fuzz", "bench", "examples", "proto", "include"}


def anchor(heading):
    """As GitHub makes it of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def headings(page):
    return {anchor(line.lstrip("#")) for line in page.read_text().splitlines() if line.startswith("#")}


def link_fault(page, link):
    if re.match(r"[a-z]+:", link):
        return None
    path, _, part = link.partition("#")
    target = page.parent / path if path else page
    if not target.exists():
        return "no such file"
    if part and target.suffix == ".md" and part not in headings(target):
        return "no such heading"
    return None


def name_fault(name):
    first = name.split("/")[0]
    if first not in LAYERS | FOLDERS:
        return None
    base = ROOT / "src" / name if first in LAYERS else ROOT / name
    if base.exists() or any(base.parent.glob(base.name + ("" if "*" in name else ".*"))):
        return None
    return "no such file"


def function_fault(name, functions):
    path = next((p for p in (ROOT / "src" / name, ROOT / name) if p.exists()), None)
    if not path:
        return None
    text = path.read_text()
    missing = [f for f in re.findall(r"\w+", functions) if not re.search(rf"\b{f}\b", text)]
    return "does not have " + ", ".join(missing) if missing else None


def names_of_tests():
    found = set()
    for path in (ROOT / "tests").rglob("*"):
        if path.suffix in (".py", ".c"):
            found.add(path.stem)
        if path.suffix == ".py" and path.name.startswith("test_"):
            found.update(re.findall(r"^def (test_\w+)", path.read_text(), re.M))
    return found


def test_fault(name, tests):
    if name.endswith("*"):
        return None if any(t.startswith(name[:-1]) for t in tests) else "no such test"
    return None if name in tests else "no such test"


def main():
    tests = names_of_tests()
    pages = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"], cwd=ROOT, text=True,
                           capture_output=True, check=True).stdout.split()
    faults = 0
    for name in pages:
        page = ROOT / name
        if not page.exists():
            continue
        for number, line in enumerate(page.read_text().splitlines(), 1):
            for text, fault in [(m, link_fault(page, m)) for m in LINK.findall(line)] + \
                               [(m, name_fault(m)) for m in NAMED.findall(line)] + \
                               [(m, test_fault(m, tests)) for m in TEST.findall(line)] + \
                               [(m[0], function_fault(*m)) for m in IN_FILE.findall(line)]:
                if fault:
                    faults += 1
                    print(f"{name}:{number}: {text}: {fault}")
    print(f"docs: {len(pages)} pages, {faults} faults")
    return 1 if faults or not pages else 0


if __name__ == "__main__":
    sys.exit(main())
