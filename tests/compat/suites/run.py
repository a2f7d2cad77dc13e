#!/usr/bin/env python3
"""Runs the test suites of Starlette, FastAPI and websockets with a server of AnyServe in the place of their own test servers.

    tests/compat/suites/run.py [--write] [SUITE…]

A replica runs pytest with the cases of the suite (host.py); each request and message of a case goes from its client through the
dispatcher to that replica. What a case needs that is not so is in known/SUITE.txt, with the reason; any other failure is a fault,
and so is a case of that list that passes. --write: writes the results into docs/COMPATIBILITY-ASGI.md.

The cases of Starlette and FastAPI come from PyPI (install.py). PyPI has those of websockets only in part: ANYSERVE_WEBSOCKETS names
a folder with its source; without it that suite is left out. ANYSERVE_BUILD names the build under test.
"""

import argparse
import collections
import fnmatch
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
INSTALLED = ROOT / "build/compat/suites"
PAGE = ROOT / "docs/COMPATIBILITY-ASGI.md"
SECONDS = 1500  # that a suite may take


class Suite(NamedTuple):
    version: str
    cases: tuple  # arguments of pytest
    environment: dict = {}


SUITES = {
    "starlette": Suite("1.10.0", ("tests",)),
    "fastapi": Suite("0.165.0", ("tests", "--ignore=tests/benchmarks", "--ignore=tests/memory_benchmarks",
                                 "--ignore=tests/test_prepare_release.py", "--ignore=tests/test_translate.py")),
    "websockets": Suite("16.1.1", ("tests/asyncio/test_connection.py", "tests/asyncio/test_client.py",
                                   "tests/asyncio/test_server.py", "tests/sync/test_connection.py"),
                        {"WEBSOCKETS_TESTS_TIMEOUT_FACTOR": "200"}),
}  # fmt: skip


def folder_of(name):
    """Of the suite's tests, or None if they are not here."""
    if name == "websockets":
        given = os.environ.get("ANYSERVE_WEBSOCKETS")
        return Path(given).resolve() if given else None
    return INSTALLED / name


def known(name):
    """[(reason, [pattern])] of the cases that do not pass."""
    found = []
    path = HERE / "known" / f"{name}.txt"
    for line in path.read_text().splitlines() if path.exists() else []:
        if line.strip() and not line.startswith("#"):
            if line[0].isspace():
                found[-1][1].append(line.strip())
            else:
                found.append((line.strip(), []))
    return found


def matches(case, pattern):
    """A pattern names a case, all cases of a function, of a class or of a file; a * stands for any text. One that begins with ~
    is of a case that passes sometimes."""
    pattern = pattern.lstrip("~")
    return case == pattern or case.startswith((pattern + "[", pattern + "::")) or \
        ("*" in pattern and fnmatch.fnmatchcase(case, pattern.replace("[", "[[]")))


def run(name):
    """[what became of a case], in the order in which they ran."""
    build = ROOT / os.environ.get("ANYSERVE_BUILD", "build/release")
    suite, folder = SUITES[name], Path(tempfile.mkdtemp(prefix="as-suite-", dir="/tmp"))
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    results, ended = folder / "results", folder / "results.ended"
    work = folder / "suite"
    work.mkdir()
    for part in folder_of(name).iterdir():  # only what the cases need: the library itself is the installed one
        if part.name in ("tests", "docs", "docs_src"):
            (work / part.name).symlink_to(part)
    python = Path(os.environ.get("ANYSERVE_SUITES_PYTHON", INSTALLED / "env/bin/python"))
    environment = {**os.environ, **suite.environment, "ANYSERVE_PORT": str(port), "SUITE": str(work), "SUITE_NAME": name,
                   "SUITE_RESULTS": str(results), "SUITE_ARGS": "\n".join(suite.cases), "PYTHONDONTWRITEBYTECODE": "1",
                   "PYTHONPATH": os.pathsep.join(map(str, (HERE, build / "python", work)))}  # fmt: skip
    with open(folder / "log", "wb") as log:
        server = subprocess.Popen([build / "src/app/anyserve", "run", "host:app", f"--port={port}", "--status-port=off",
                                   f"--runtime-dir={folder / 'run'}", f"--python={python}"], cwd=HERE, env=environment, stdout=log, stderr=log)  # fmt: skip
        try:
            until = time.monotonic() + SECONDS
            while not ended.exists() and server.poll() is None and time.monotonic() < until:
                time.sleep(0.2)
            if not ended.exists():
                sys.exit(f"{name}: the suite did not end:\n" + (folder / "log").read_text(errors="replace")[-5000:])
        finally:
            server.terminate()
            server.wait(60)
    if os.environ.get("SUITES_KEEP"):
        print(folder)
    cases = {}
    for line in results.read_text().splitlines():
        case = json.loads(line)
        if cases.get(case["case"], {}).get("how") != "failed":  # a case may be reported twice: the call, and its end
            cases[case["case"]] = case
    if not os.environ.get("SUITES_KEEP"):
        shutil.rmtree(folder)
    return list(cases.values())


def judge(name, cases):
    """Gives each case that did not pass its reason. Returns the faults, a text each."""
    faults, used, reasons = [], set(), known(name)
    for case in cases:
        if case["how"] == "left out":
            case["reason"] = case["why"]
            continue
        why = next(((r, p) for r, patterns in reasons for p in patterns if matches(case["case"], p)), None)
        if why:
            case["reason"] = why[0]
            used.add(why)
            if case["how"] == "passed" and case["case"] == why[1]:
                faults.append(f"{case['case']} passes, and is in known/{name}.txt")
        elif case["how"] == "failed":
            faults.append(f"{case['case']} failed:\n{case['why']}")
        elif case["how"] == "skipped":
            case["reason"] = re.sub(r".*Skipped: (.*?)['\"]?\)?$", r"\1", case["why"].strip().splitlines()[-1])
    faults += [f"{p}: no such case" for r, patterns in reasons for p in patterns if (r, p) not in used]
    return faults


COLUMNS = ("passed", "failed", "skipped", "left out")


def table(cases):
    """Counts per file, of cases that have sent a request, and of the others that need no server."""
    files = collections.defaultdict(collections.Counter)
    for c in cases:
        how = "passed" if c["how"] == "xfailed" else c["how"]
        key = "no server" if how == "passed" and not c["requests"] else how
        files[re.sub(r"^tests/", "", c["case"].split("::")[0])][key] += 1
    return files


def summary(name, cases):
    total = sum(table(cases).values(), collections.Counter())
    return (f"{name} {SUITES[name].version}: {len(cases)} cases; through the server {total['passed']} passed, {total['failed']} failed "
            f"for a known reason; {total['no server']} need no server; {total['skipped']} skipped; {total['left out']} left out")  # fmt: skip


def section(name, cases):
    lines = [f"## {name} {SUITES[name].version}", "", summary(name, cases).partition(": ")[2] + ".", "",
             "| file | passed | failed | skipped | left out | without a server |", "|---|---|---|---|---|---|"]  # fmt: skip
    files = table(cases)
    whole = [f for f, n in files.items() if set(n) <= {"passed", "no server"}]
    for file, n in sorted(files.items()):
        if len(whole) < 100 or file not in whole:
            lines.append(f"| {file} | " + " | ".join(str(n[c]) for c in (*COLUMNS, "no server")) + " |")
    if len(whole) >= 100:
        n = sum((files[f] for f in whole), collections.Counter())
        lines.append(f"| {len(whole)} files of which all cases passed | {n['passed']} | 0 | 0 | 0 | {n['no server']} |")
    why = collections.defaultdict(collections.Counter)
    for c in cases:
        if c["how"] in ("failed", "skipped"):
            why[c["reason"]][re.sub(r"\[.*", "", c["case"]).split("::")[-1]] += 1
        elif c["how"] == "left out":
            why[c["reason"]][""] += 1
    lines += ["", "Why not:", ""]
    for reason, names in sorted(why.items(), key=lambda item: -sum(item[1].values())):
        shown = [f"{n} ({k})" if k > 1 else n for n, k in sorted(names.items()) if n]
        lines.append(f"- {sum(names.values())}: {reason}" + (": " + ", ".join(shown[:12]) if shown else "")
                     + (f" and {len(shown) - 12} more" if len(shown) > 12 else ""))  # fmt: skip
    return lines + [""]


def write(results):
    """The sections of these suites; those of the others stay."""
    head, *rest = PAGE.read_text().split("\n## ")
    sections = {text.partition(" ")[0]: "\n## " + text for text in rest}
    for name, cases in results.items():
        sections[name] = "\n" + "\n".join(section(name, cases)).rstrip() + "\n"
    PAGE.write_text(head.rstrip() + "\n" + "".join(sections[name] for name in SUITES if name in sections))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("suite", nargs="*", choices=[[], *SUITES])
    p.add_argument("--write", action="store_true")
    p.add_argument("--all-faults", action="store_true", help="all of each fault's text")
    args = p.parse_args()
    results, bad = {}, 0
    for name in args.suite or SUITES:
        if folder_of(name) is None:
            print(f"{name}: left out: ANYSERVE_WEBSOCKETS names no folder with its source")
            continue
        results[name] = run(name)
        faults = judge(name, results[name])
        print(summary(name, results[name]), *(f if args.all_faults else f[:300] for f in faults), sep="\n", flush=True)
        bad += len(faults)
    if args.write and not bad:
        write(results)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
