#!/usr/bin/env python3
"""`make fuzz`: libFuzzer with ASan and UBSan over every fuzz target, a while each; needs clang.

    tools/fuzz.py [--seconds 60] [--only NAME[,NAME]]

Starts from fuzz/corpus/NAME; what it finds new stays in build/fuzz-corpus/NAME, a crash in
build/fuzz-crash/. One line per target at the end. Exit code 1 if one crashed, hung or leaked.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build/fuzz"


def targets():
    out = subprocess.run(["meson", "introspect", "--targets", BUILD], capture_output=True, text=True,
                         check=True).stdout
    return {t["name"][2:]: Path(t["filename"][0]) for t in json.loads(out)
            if t["type"] == "executable" and t["name"].startswith("f_")}


def build():
    if not (BUILD / "build.ninja").exists():
        subprocess.run(["meson", "setup", BUILD, "-Dfuzzer=true", "-Dbuildtype=debugoptimized",
                        "-Db_sanitize=address,undefined", "-Db_lundef=false",
                        "-Dc_args=-fsanitize=fuzzer-no-link", "-Dcpp_args=-fsanitize=fuzzer-no-link"],
                       cwd=ROOT, env=dict(os.environ, CC="clang", CXX="clang++"), check=True,
                       stdout=subprocess.DEVNULL)
    programs = targets()
    subprocess.run(["ninja", "-C", BUILD, "--quiet",
                    *(str(p.relative_to(BUILD)) for p in programs.values())], check=True)
    return programs


def fuzz(name, program, seconds):
    """One campaign; (is good, line to print)."""
    found, crashes = ROOT / "build/fuzz-corpus" / name, ROOT / "build/fuzz-crash"
    found.mkdir(parents=True, exist_ok=True)
    crashes.mkdir(exist_ok=True)
    command = [program, found, ROOT / "fuzz/corpus" / name, f"-max_total_time={seconds}",
               f"-artifact_prefix={crashes}/{name}-", "-timeout=10", "-rss_limit_mb=2048",
               "-print_final_stats=1", "-max_len=65536"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env=dict(os.environ, UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1"),
                          errors="replace", check=False)
    runs = re.search(r"stat::number_of_executed_units: (\d+)", done.stdout)
    cover = re.findall(r"cov: (\d+)", done.stdout)
    if done.returncode:
        print("\n".join(done.stdout.splitlines()[-60:]))
    return (done.returncode == 0,
            f"{name:20} {'ok' if done.returncode == 0 else 'FAILED':7}"
            f" {runs[1] if runs else '?':>12} runs, {cover[-1] if cover else '?':>6} edges")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", default=60, type=int)
    parser.add_argument("--only")
    options = parser.parse_args()
    if not shutil.which("clang"):
        print("fuzz: clang is missing: apt-get install clang", file=sys.stderr)
        return 1
    programs = build()
    if options.only:
        programs = {n: p for n, p in programs.items() if n in options.only.split(",")}
    results = []
    for name, program in programs.items():
        print(f"{name}: {options.seconds} s", flush=True)
        results.append(fuzz(name, program, options.seconds))
    print("\n".join(line for _, line in results))
    return 0 if results and all(good for good, _ in results) else 1


if __name__ == "__main__":
    sys.exit(main())
