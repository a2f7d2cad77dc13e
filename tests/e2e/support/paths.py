"""Where things are: the build under test, the SDK that its workers import, this repository."""

import json
import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
E2E = ROOT / "tests/e2e"
APPS = E2E / "apps"
PROTO = ROOT / "proto/open_inference.proto"


def _sanitizers(build):
    """As the compiler's -fsanitize= takes them; empty: none."""
    try:
        options = json.loads((build / "meson-info/intro-buildoptions.json").read_text())
    except OSError:
        return ""
    (value,) = [o["value"] for o in options if o["name"] == "b_sanitize"]
    return "" if value in ("none", []) else value if isinstance(value, str) else ",".join(value)


BUILD = ROOT / os.environ.get("ANYSERVE_BUILD", "build/release")
BINARY = BUILD / "src/app/anyserve"
SANITIZERS = _sanitizers(BUILD)
SANITIZED = bool(SANITIZERS)
# A sanitized extension does not load into a plain interpreter: its workers use the release one.
_SDK = ROOT / "build/release/python" if SANITIZED else BUILD / "python"
SDK = Path(os.environ.get("ANYSERVE_PYTHONPATH", _SDK)).resolve()
