#!/usr/bin/env python3
"""What can be said about the sources without running them; `make check` is this.

Layers, sizes, what the pages point to, format, clang-tidy over src/, generated pages.
"""

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build/release"
# clang does not know all warnings and options of gcc that the build asks for.
TIDY = ["clang-tidy", "--quiet", "-p", str(BUILD), "--extra-arg=-Wno-unknown-warning-option",
        "--extra-arg=-Wno-ignored-optimization-argument"]


def sources(*tops, suffixes=(".c", ".h")):
    return sorted(str(p) for top in tops for p in (ROOT / top).rglob("*") if p.suffix in suffixes)


def call(command):
    done = subprocess.run(command, cwd=ROOT, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False)
    return done.returncode, done.stdout


def tidy():
    """clang-tidy file by file, as many at a time as there are cores."""
    if not shutil.which("clang-tidy"):
        return 1, "clang-tidy is not installed: apt-get install clang-tidy (14 is what the list in .clang-tidy is for)\n"
    built = (BUILD / "compile_commands.json").read_text()
    files = [f for f in sources("src", suffixes=(".c",)) if str(Path(f).relative_to(ROOT)) in built]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        done = list(pool.map(lambda f: call(TIDY + [f]), files))
    log = ROOT / "build/clang-tidy.log"
    log.write_text("".join(out for code, out in done if code))
    found = sorted({line for line in log.read_text().splitlines() if " error: " in line})
    bad = sum(code != 0 for code, _ in done)
    return bad, "\n".join(found + [f"{len(files)} files, {bad} with findings; with their traces "
                                   f"in {log.relative_to(ROOT)}", ""])


CHECKS = {
    "layers": lambda: call([sys.executable, "tools/check_layers.py"]),
    "sizes": lambda: call([sys.executable, "tools/size_report.py"]),
    "docs": lambda: call([sys.executable, "tools/check_docs.py"]),
    "format": lambda: call(["clang-format", "--dry-run", "-Werror",
                            *sources("src", "python/src", "tests", "fuzz", "bench")]),
    "clang-tidy": tidy,
    "generated pages": lambda: call([sys.executable, "tools/gen_options.py",
                                     BUILD / "src/app/anyserve", "--check"]),
}


def main():
    failed = []
    for name, check in CHECKS.items():
        code, out = check()
        print(f"== {name}\n{out}", end="", flush=True)
        if code:
            failed.append(name)
    print(f"{len(CHECKS) - len(failed)} checks passed, {len(failed)} failed"
          + (": " + ", ".join(failed) if failed else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
