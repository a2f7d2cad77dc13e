#!/usr/bin/env python3
"""Things die while clients call: acceptance with figures; `make chaos`.

    tests/chaos/run.py [NAME…] [--only REGEX] [--count N] [--seed N] [--json FILE]

Each scenario is a file beside this one and says what must hold. A line for each of its parts: ok; FAILED with what
did not hold; INVALID when the load did not reach 90 % of what was planned, so that nothing was shown. --count is the
number of kills of a part; without it as many as the scenario's own COUNT. --only takes the parts whose names match.
"""

import argparse
import importlib
import random
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "e2e")]

SCENARIOS = ("storm", "once", "restart", "detect", "dispatcher", "controller", "update", "upgrade", "memory", "poison", "overload")
SPECIAL = ("failpoints",)  # only by name: it needs a build of its own


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(SCENARIOS + SPECIAL))
    parser.add_argument("--count", type=int, default=0, help="kills of a part; default: the scenario's own")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="of the moments and victims")
    parser.add_argument("--only", type=re.compile, default="", help="of the scenarios' parts, those that match")
    parser.add_argument("--json", help="append each result as a line")
    options = parser.parse_args()
    options.wants = lambda part: re.search(options.only, part)
    for name in options.names:
        if name not in SCENARIOS + SPECIAL:
            parser.error(f"{name!r} is no scenario: {', '.join(SCENARIOS + SPECIAL)}")
    print(f"chaos: --seed {options.seed}", flush=True)
    bad = 0
    for name in options.names or SCENARIOS:
        for result in importlib.import_module(name).run(options):
            bad += result.verdict != "ok"
            print(result.line(), flush=True)
            if options.json:
                with open(options.json, "a", encoding="utf-8") as out:
                    out.write(result.json() + "\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
