"""Every page of the guide, pasted as it stands, each in folders and a network of its own, so that its ports are free.

rest.md and workers.md have tests of their own, which compare what is printed, too. README.md and install.md begin with a
wheel: tests/dist/test_readme.py.
"""

import tempfile
from pathlib import Path

import pytest

from support import guide, paths
from support.process import world

PAGES = sorted(p for p in (paths.ROOT / "docs/guide").glob("*.md") if p.name not in ("rest.md", "workers.md", "install.md"))
PAGES += [paths.ROOT / "docs/OPERATING.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_page(page):
    def test():
        env = world.home(0)
        guide.read(page, Path(tempfile.mkdtemp(dir="/var/lib")), env)
    world.in_world(test)


@pytest.mark.parametrize("text, what", [
    ("```sh\nfalse\n```", "ended with 1"), ("```python\n1 +\n```", "SyntaxError"), ("```python fragment\n1 +\n```", "invalid syntax"),
    ("```sh later\ntrue\n```", "what is to be done"), ("```ruby\n```", "what is to be done"), ("```yaml file.txt\n```", "file.txt"),
])
def test_a_page_that_is_wrong(tmp_path, text, what):
    page = tmp_path / "page.md"
    page.write_text(text + "\n")
    (tmp_path / "folder").mkdir()
    with pytest.raises(AssertionError, match=f"(?s)page.md:1:.*{what}"):
        guide.read(page, tmp_path / "folder")
