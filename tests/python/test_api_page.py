"""docs/guide/api.md is what the docstrings say."""

import subprocess
import sys

from fake import PACKAGE, ROOT


def test_the_page_is_what_the_docstrings_say():
    done = subprocess.run([sys.executable, ROOT / "tools/gen_api.py", PACKAGE, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
