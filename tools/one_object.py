#!/usr/bin/env python3
"""Makes one object file of a static library, with only the symbols that a linker's version script exports.

    tools/one_object.py LIBRARY.a SYMBOLS.map OUT.a

A shared library hides what its map does not name; a static one has no such thing, and whoever links it would see every
function of ours. LD, OBJCOPY and AR in the environment name other tools than those of the system.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path


def exported(text):
    text = re.sub(r"#.*", "", text)
    (names,) = re.findall(r"global:(.*?)local:", text, re.S)
    return re.findall(r"\w+", names)


def run(tool, *args):
    subprocess.run([os.environ.get(tool.upper(), tool), *args], check=True)


def main(library, symbols, out):
    with tempfile.TemporaryDirectory() as folder:
        whole, keep = Path(folder, Path(out).stem + ".o"), Path(folder, "keep")
        keep.write_text("\n".join(exported(Path(symbols).read_text())) + "\n")
        run("ld", "-r", "--whole-archive", library, "-o", whole)
        # what link-time optimisation left beside the code still has all names
        run("objcopy", f"--keep-global-symbols={keep}", "--wildcard", "--remove-section=.gnu.lto_*",
            "--remove-section=.gnu.debuglto_*", whole)
        Path(out).unlink(missing_ok=True)
        run("ar", "rcsD", out, whole)


if __name__ == "__main__":
    main(*sys.argv[1:])
