#!/usr/bin/env python3
"""Writes the pages of docs/guide that a built binary prints of its tables; --check only compares.

usage: tools/gen_options.py BINARY [--check]
"""

import subprocess
import sys
from pathlib import Path

GUIDE = Path(__file__).resolve().parent.parent / "docs/guide"
PAGES = {"options.md": "options", "deployment-file.md": "deployment-page"}


def main():
    code = 0
    for name, command in PAGES.items():
        page = GUIDE / name
        text = subprocess.run([sys.argv[1], command], check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout
        if "--check" not in sys.argv:
            page.write_text(text, encoding="utf-8")
        elif not page.exists() or page.read_text(encoding="utf-8") != text:
            print(f"{page} is not what {sys.argv[1]} prints: run tools/gen_options.py {sys.argv[1]}")
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main())
