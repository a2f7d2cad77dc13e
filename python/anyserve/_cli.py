"""The command ``anyserve``: hands over to the native binary inside the package."""

import os
import sys


def main() -> None:
    binary = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_bin", "anyserve")
    os.environ.setdefault("ANYSERVE_PYTHON", sys.executable)
    try:
        os.execv(binary, ["anyserve"] + sys.argv[1:])
    except OSError as e:
        sys.exit("anyserve: cannot run %s: %s" % (binary, e.strerror))
