#!/usr/bin/env python3
"""Writes what is made from the table of a deployment's options in Python (python/anyserve/serve/_declare/options.py): the types
that editors complete, and the table of docs/guide/from-ray.md.

    tools/gen_serve_options.py PACKAGE [--check]

PACKAGE: the folder that holds the built package. --check: changes nothing; exit code 1 if something is not as it would be made.
"""

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TYPES = ROOT / "python/anyserve/serve/_declare/option_types.py"
PAGE = ROOT / "docs/guide/from-ray.md"
BEGIN, END = "<!-- options: made by tools/gen_serve_options.py -->\n", "<!-- options end -->\n"

HEAD = '''"""What `serve.deployment` takes, for editors and type checkers. Made by tools/gen_serve_options.py from options.py."""

from __future__ import annotations

from typing import Any, Dict, List, Literal, Optional, TypedDict, Union

from ..config import AutoscalingConfig, BackpressureConfig, LoggingConfig, RequestRouterConfig

__all__ = ["DeploymentOptions", "RayActorOptions"]
'''


def types(options):
    out = [HEAD]
    rows = {"RayActorOptions": ("Resources and environment of a replica.", options.ACTOR_OPTIONS),
            "DeploymentOptions": ("The options of `serve.deployment` and of `Deployment.options`.", options.OPTIONS)}
    for name, (doc, table) in rows.items():
        out.append(f'\n\nclass {name}(TypedDict, total=False):\n    """{doc}"""\n\n')
        for row in table:
            if row.effect != options.REMOVED:
                out.append(f"    # {row.doc}\n    {row.name}: {row.type}\n")
    return "".join(out)


def becomes(options, row):
    if row.effect == options.NO_EFFECT:
        return "accepted, no effect on one machine; said once in the log"
    if row.effect == options.NOT_YET:
        return "an error: not yet"
    if row.effect == options.REMOVED:
        return "an error, as in Ray"
    if row.effect == options.ACTOR:
        return "see below"
    return "" if row.effect == options.NAME else "key " + ", ".join(f"`{k}`" for k in (row.key or row.name).split(", "))


def page(options):
    out = [BEGIN, "| option | what it is | what becomes of it |\n|---|---|---|\n"]
    for table, prefix in (options.OPTIONS, ""), (options.ACTOR_OPTIONS, "ray_actor_options: "):
        for row in table:
            out.append(f"| {prefix}`{row.name}` | {row.doc} | {becomes(options, row)} |\n")
    return "".join(out + [END])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("package", type=Path)
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    sys.path.insert(0, str(given.package))
    from anyserve.serve._declare import options

    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    wanted = {TYPES: types(options), PAGE: before + page(options) + rest.split(END)[1]}
    faults = [path for path, made in wanted.items() if not path.exists() or path.read_text() != made]
    for path in faults:
        if given.check:
            print(f"{path.relative_to(ROOT)}: not what the table says; run tools/gen_serve_options.py")
        else:
            path.write_text(wanted[path])
    sys.exit(bool(faults) and given.check)


if __name__ == "__main__":
    main()
