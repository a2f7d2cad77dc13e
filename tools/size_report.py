#!/usr/bin/env python3
"""Sizes as a mirror: lines per file and per function, share of comment lines, by folder.

Fails for what hides a second concept: a file over 600 lines, a function over 100. Functions are found
by the brace in column 0 that the house's format gives them.
"""

import re
import sys
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
FILE_MAX, FUNCTION_MAX = 600, 100
NAME = re.compile(r"(\w+)\s*\(")


def functions(lines):
    """(name, first line, length) of each function body; the head is not counted."""
    start = None
    for number, line in enumerate(lines, 1):
        if line.startswith("{"):
            start = number
        elif line.startswith("}") and start:
            head = " ".join(lines[max(0, start - 6):start - 1]).rsplit(";", 1)[-1].rsplit("}", 1)[-1]
            m = NAME.search(head.rsplit("*/", 1)[-1])
            yield (m[1] if m else "?"), start, number - start + 1
            start = None


def comment_lines(text):
    return sum(c.count("\n") + 1 for c in re.findall(r"/\*.*?\*/", text, re.S))


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def report(name, files, faults):
    sizes, lengths, comments = [], [], 0
    for path in files:
        text = path.read_text()
        lines = text.splitlines()
        sizes.append(len(lines))
        comments += comment_lines(text)
        if len(lines) > FILE_MAX:
            faults.append(f"{path.relative_to(ROOT)}: {len(lines)} lines, at most {FILE_MAX}")
        for function, start, length in functions(lines):
            lengths.append(length)
            if length > FUNCTION_MAX:
                faults.append(f"{path.relative_to(ROOT)}:{start}: {function}: {length} lines, "
                              f"at most {FUNCTION_MAX}")
    print(f"{name:14} {len(files):5} {sum(sizes):7} {median(sizes):7.0f} {max(sizes):5} "
          f"{len(lengths):9} {median(lengths or [0]):6.0f} {percentile(lengths or [0], .9):5} "
          f"{max(lengths or [0]):5} {100 * comments / sum(sizes):7.0f} %")


def main():
    tops = [p for p in sorted((ROOT / "src").iterdir()) if p.is_dir()]
    tops += [ROOT / t for t in ("python/src", "tests", "fuzz", "bench")]
    faults, everything = [], []
    print("folder         files   lines  median   max functions median   p90   max comments")
    for top in tops:
        files = sorted(p for p in top.rglob("*") if p.suffix in (".c", ".h"))
        if files:
            report(str(top.relative_to(ROOT)), files, faults)
            everything += files
    if not everything:
        print("no sources found")
        return 1
    report("all", everything, [])
    print("\n".join(faults) or f"sizes: {len(everything)} files, 0 faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
