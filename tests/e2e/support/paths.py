"""Where things are: the build under test, the SDK that its workers import, this repository."""

import json
import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
E2E = ROOT / "tests/e2e"
APPS = E2E / "apps"
PROTO = ROOT / "proto/open_inference.proto"


def _is_sanitized(build):
    try:
        options = json.loads((build / "meson-info/intro-buildoptions.json").read_text())
    except OSError:
        return False
    return any(o["name"] == "b_sanitize" and o["value"] not in ("none", []) for o in options)


BUILD = ROOT / os.environ.get("ANYSERVE_BUILD", "build/release")
BINARY = BUILD / "src/app/anyserve"
SANITIZED = _is_sanitized(BUILD)
# A sanitized extension does not load into a plain interpreter: its workers use the release one.
_SDK = ROOT / "build/release/python" if SANITIZED else BUILD / "python"
SDK = Path(os.environ.get("ANYSERVE_PYTHONPATH", _SDK)).resolve()
