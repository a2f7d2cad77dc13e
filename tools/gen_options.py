#!/usr/bin/env python3
"""Writes docs/guide/options.md from the option table of a built binary; --check only compares.

usage: tools/gen_options.py BINARY [--check]
"""

import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "docs/guide/options.md"


def main():
    text = subprocess.run([sys.argv[1], "options"], check=True, stdout=subprocess.PIPE,
                          encoding="utf-8").stdout
    if "--check" not in sys.argv:
        PAGE.write_text(text, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
        print(f"{PAGE} is not what {sys.argv[1]} prints: run tools/gen_options.py {sys.argv[1]}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
