#!/usr/bin/env python3
"""Brings what the tests marked `install` need and Debian does not have into build/compat/: grpc-js and its loader (npm),
the KServe SDK and the schemas of Kubernetes in environments of their own, perf_analyzer out of the last wheel of tritonclient that carries it, with the CUDA
runtime library that it is linked to, and the test suites of Starlette and FastAPI with what they import (PyPI).

    tests/compat/install.py

Says nothing when there is nothing to do.
"""

import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
OUT = HERE.parents[1] / "build/compat"
KSERVE = "kserve==0.21.0"
SCHEMAS = "kubernetes-validate==1.37.0"  # the schemas of Kubernetes 1.25 to 1.37
SUITES = HERE / "suites/requirements.txt"
WHEELS = ("tritonclient==2.41.0", "nvidia-cuda-runtime-cu12==12.3.101")


def run(*command, cwd=OUT):
    done = subprocess.run([str(c) for c in command], cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")


def node():
    shutil.copy(HERE / "package.json", OUT)
    print("compat: installing grpc-js", flush=True)
    run("npm", "install", "--silent")


def kserve():
    print(f"compat: installing {KSERVE}", flush=True)
    run(sys.executable, "-m", "venv", "kserve")
    run("kserve/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", KSERVE)


def kubernetes():
    print(f"compat: installing {SCHEMAS}", flush=True)
    run(sys.executable, "-m", "venv", "kubernetes")
    run("kubernetes/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", SCHEMAS)


def perf_analyzer():
    """perf_analyzer/ has the program and libcudart beside it."""
    print("compat: fetching perf_analyzer", flush=True)
    run(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest", "wheels", *WHEELS)
    target = OUT / "perf_analyzer"
    target.mkdir(exist_ok=True)
    for wheel in sorted((OUT / "wheels").glob("*.whl")):
        with zipfile.ZipFile(wheel) as z:
            for name in z.namelist():
                if Path(name).name == "perf_analyzer" or Path(name).name.startswith("libcudart.so"):
                    (target / Path(name).name).write_bytes(z.read(name))
    (target / "perf_analyzer").chmod(0o755)
    shutil.rmtree(OUT / "wheels")


def suites():
    """suites/env has the packages, suites/NAME the cases: tests, and what they read. PyPI's source of websockets has few of its."""
    print("compat: installing the test suites of Starlette and FastAPI", flush=True)
    run(sys.executable, "-m", "venv", "suites/env")
    run("suites/env/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", SUITES)
    for line in SUITES.read_text().splitlines():
        name = line.partition("==")[0]
        if name not in ("starlette", "fastapi"):
            continue
        run(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:", "--dest", "suites/source", line)
        with tarfile.open(next((OUT / "suites/source").glob(f"{name}-*.tar.gz"))) as source:
            for member in source.getmembers():
                parts = member.name.split("/")[1:]
                if member.isfile() and parts[0] in ("tests", "docs", "docs_src") and ".." not in parts:
                    target = (OUT / "suites" / name).joinpath(*parts)
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(source.extractfile(member).read())
    shutil.rmtree(OUT / "suites/source")


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    for make, text, what in ((node, (HERE / "package.json").read_text(), "node"), (kserve, KSERVE, "kserve"),
                             (kubernetes, SCHEMAS, "kubernetes"),
                             (perf_analyzer, " ".join(WHEELS), "perf_analyzer"), (suites, SUITES.read_text(), "suites")):
        stamp = OUT / f".{what}"
        if not stamp.exists() or stamp.read_text() != text:
            make()
            stamp.write_text(text)


if __name__ == "__main__":
    main()
