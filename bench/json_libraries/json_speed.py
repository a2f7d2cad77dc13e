"""JSON tensors: AnyServe's reader and writer beside jansson, and bare simdjson and yyjson as ceilings.

    bench/json_libraries/json_speed.py [--build build/release] [--rounds 5] [--no-yyjson]

The libraries take turns; a figure is the median of its rounds, in MB of text per second of CPU time. yyjson's C
source comes out of the Python package of that name (pip download) into the build folder.
"""

import argparse
import json
import subprocess
import sys
import tarfile
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent))
LIBRARIES = ["anyserve", "jansson", "simdjson", "yyjson"]


def build_yyjson(build):
    """The program for yyjson, or None when its source cannot be had."""
    folder, program = build / "bench/yyjson", build / "bench/json_speed_yyjson"
    if program.exists():
        return program
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                           "--no-binary", ":all:", "--no-build-isolation", "--dest", folder, "yyjson==4.0.6"],
                          capture_output=True, text=True, check=False)
    archives = sorted(folder.glob("yyjson-*.tar.gz"))
    if done.returncode or not archives:
        print(f"json_speed.py: without yyjson: {done.stderr.strip()[-200:]}", file=sys.stderr)
        return None
    with tarfile.open(archives[-1]) as archive:
        for member in archive.getmembers():
            if Path(member.name).name in ("yyjson.c", "yyjson.h"):
                (folder / Path(member.name).name).write_bytes(archive.extractfile(member).read())
    subprocess.run(["cc", "-O3", "-std=gnu17", "-I", folder, "-o", program, HERE / "json_speed.c",
                    HERE / "json_yyjson.c", folder / "yyjson.c", "-lm"], check=True)
    return program


def programs(build, with_yyjson=True):
    """Those that can be built, by name."""
    found = {}
    for name in LIBRARIES[:3]:
        target = f"bench/json_speed_{name}"
        if subprocess.run(["ninja", "--quiet", "-C", build, target], capture_output=True, check=False).returncode == 0:
            found[name] = build / target
    if with_yyjson and (program := build_yyjson(build)):
        found["yyjson"] = program
    return found


def measure(found, rounds):
    """{library: {"FP32": {"parse": …, "print": …}, …}}, medians; `ratio` is over jansson, round by round."""
    samples = {name: [] for name in found}
    for _ in range(rounds):
        for name, program in found.items():
            out = subprocess.run([program], capture_output=True, text=True, check=True).stdout
            samples[name].append(json.loads(out))
    return {name: {dtype: {what: [s[dtype][what] for s in rows] for what in ("parse", "print")}
                   for dtype in ("FP32", "FP64")} for name, rows in samples.items()}


def rows(result):
    """For a table: library, then parse and print of both datatypes with their ratio to jansson."""
    for name, by_dtype in result.items():
        row = [name]
        for dtype in ("FP32", "FP64"):
            for what in ("parse", "print"):
                mine, base = by_dtype[dtype][what], result.get("jansson", by_dtype)[dtype][what]
                row.append(f"{median(mine):.0f} ({median(a / b for a, b in zip(mine, base)):.1f}×)" if mine[0] else "–")
        yield row


HEAD = ["library", "FP32 parse MB/s", "FP32 print", "FP64 parse", "FP64 print"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", default=ROOT / "build/release", type=Path)
    parser.add_argument("--rounds", default=5, type=int)
    parser.add_argument("--no-yyjson", action="store_true")
    options = parser.parse_args()
    from report import table
    print(table(HEAD, list(rows(measure(programs(options.build.resolve(), not options.no_yyjson), options.rounds)))))


if __name__ == "__main__":
    main()
