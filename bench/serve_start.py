"""How long a program waits: from its call of serve.run to the first answer, with a server of its own and with one that runs.

usage: python bench/serve_start.py [FOLDER] [-n TIMES]      FOLDER: a build's python folder; default build/release/python
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

PROGRAM = """
import json, time
begin = time.perf_counter()
from anyserve import serve

@serve.deployment
class Child:
    def __init__(self, n):
        self.n = n

    async def plus(self, x):
        return self.n + x

@serve.deployment
class Parent:
    def __init__(self, child):
        self.child = child

    async def __call__(self, x):
        return await self.child.plus.remote(x)

app = Parent.bind(Child.bind(3))
imported = time.perf_counter()
out = {"import": imported - begin}
for name in "first run", "second run":
    start = time.perf_counter()
    handle = serve.run(app)
    ready = time.perf_counter()
    assert handle.remote(4).result() == 7
    out[name + ": ready"] = ready - start
    out[name + ": first answer"] = time.perf_counter() - start
print(json.dumps(out))
"""


def measure(package):
    folder = tempfile.mkdtemp(prefix="as-", dir="/tmp")
    try:
        env = {**os.environ, "PYTHONPATH": os.path.abspath(package), "ANYSERVE_PORT": "0", "ANYSERVE_RUNTIME_DIR": folder}
        path = os.path.join(folder, "program.py")
        with open(path, "w") as f:
            f.write(PROGRAM)
        done = subprocess.run([sys.executable, path], env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
        return json.loads(done.stdout)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder", nargs="?", default="build/release/python")
    p.add_argument("-n", type=int, default=10)
    args = p.parse_args()
    rows = [measure(args.folder) for _ in range(args.n)]
    print("two deployments, %d programs; seconds: median, least, most" % args.n)
    for name in rows[0]:
        values = [r[name] for r in rows]
        print("%-28s %6.2f %6.2f %6.2f" % (name, statistics.median(values), min(values), max(values)))


if __name__ == "__main__":
    main()
