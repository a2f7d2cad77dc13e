#!/usr/bin/env python3
"""Things die while clients call: acceptance with figures; `make chaos`.

    tests/chaos/run.py [NAME…] [--only REGEX] [--count N] [--seed N] [--tls] [--json FILE]

Each scenario is a file of scenarios/ and says what must hold. A line for each of its parts: ok; FAILED with what
did not hold; INVALID when the load did not reach 90 % of what was planned, so that nothing was shown. --count is the
number of kills of a part; without it as many as the scenario's own COUNT. --only takes the parts whose names match.
--tls: clients of storm, dispatcher and upgrade come by TLS; those of renewal always do.
Exit codes: 0 all is ok; 1 something is not, or a scenario broke off (the others are played nevertheless); 2 nothing was played.
"""

import argparse
import importlib
import random
import re
import sys
import traceback
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "e2e")]

SCENARIOS = ("storm", "once", "restart", "detect", "dispatcher", "controller", "update", "upgrade", "memory", "poison",
             "overload", "hung", "bodies", "chain", "http_chain", "scaling", "zero", "renewal")
SPECIAL = ("failpoints",)  # only by name: it needs a build of its own


def play(name, options):
    """The verdict of each part."""
    try:
        for result in importlib.import_module(f"scenarios.{name}").run(options):
            print(result.line(), flush=True)
            if options.json:
                with open(options.json, "a", encoding="utf-8") as out:
                    out.write(result.json() + "\n")
            yield result.verdict
    except Exception:
        traceback.print_exc()
        print(f"FAILED  {name:10} it broke off", flush=True)
        yield "FAILED"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(SCENARIOS + SPECIAL))
    parser.add_argument("--count", type=int, default=0, help="kills of a part; default: the scenario's own")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="of the moments and victims")
    parser.add_argument("--only", type=re.compile, default="", help="of the scenarios' parts, those that match")
    parser.add_argument("--tls", action="store_true", help="by TLS, where a scenario can")
    parser.add_argument("--json", help="append each result as a line")
    options = parser.parse_args()
    options.wants = lambda part: re.search(options.only, part)
    for name in options.names:
        if name not in SCENARIOS + SPECIAL:
            parser.error(f"{name!r} is no scenario: {', '.join(SCENARIOS + SPECIAL)}")
    print(f"chaos: --seed {options.seed}", flush=True)
    verdicts = [verdict for name in options.names or SCENARIOS for verdict in play(name, options)]
    if not verdicts:
        print("nothing was played: no part has such a name", flush=True)
        return 2
    return 1 if set(verdicts) != {"ok"} else 0


if __name__ == "__main__":
    sys.exit(main())
