"""The examples of docs/guide/rest.md, run as they stand there: each `sh` block that begins with curl, and what it
prints in the block behind it. The first Python block is the application, the last one a client."""

import os
import re
import subprocess
import sys

import pytest

from support import paths

TEXT = (paths.ROOT / "docs/guide/rest.md").read_text()
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```\n", re.M | re.S)
BLOCKS = [(m[1], m[2]) for m in BLOCK.finditer(TEXT)]
PYTHON = [text for kind, text in BLOCKS if kind == "python"]
EXAMPLES = [(text, BLOCKS[i + 1][1]) for i, (kind, text) in enumerate(BLOCKS[:-1])
            if kind == "sh" and text.startswith("curl")]


@pytest.fixture(scope="module")
def server(serve_module):
    return serve_module("file.py", source=PYTHON[0])


def test_there_are_examples():
    assert len(EXAMPLES) >= 9


@pytest.mark.parametrize("version", ["http1.1", "http2-prior-knowledge"])
@pytest.mark.parametrize("command, printed", EXAMPLES, ids=range(len(EXAMPLES)))
def test_example(server, tmp_path, command, printed, version):
    # the address of the page is led to our server; the command stays as it is
    (tmp_path / ".curlrc").write_text(f'connect-to = "127.0.0.1:8000:127.0.0.1:{server.port}"\n{version}\n')
    run = subprocess.run(["bash", "-c", command], env={**os.environ, "CURL_HOME": str(tmp_path)}, text=True,
                         stdout=subprocess.PIPE, check=True, timeout=60)
    assert run.stdout.strip() == printed.strip()


def test_client(server):
    script = PYTHON[-1].replace("127.0.0.1:8000", server.address)
    assert script != PYTHON[-1]
    run = subprocess.run([sys.executable, "-c", script], text=True, stdout=subprocess.PIPE, check=True, timeout=60)
    assert run.stdout.strip() == re.search(r"# (\[.*\])$", PYTHON[-1], re.M)[1]
