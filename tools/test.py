#!/usr/bin/env python3
"""Everything that must pass, step by step; `make test` is this, `make quick` its short form.

    tools/test.py [--quick] [--only STEP[,STEP]] [--list]

Each step prints the closing lines of its runner. At the end come the names of what failed, at most 20, and as the
last line of all "N passed, N failed". What a step printed in full is in build/test/STEP.log. Exit code 1 if
anything failed or a step could not run.
"""

import argparse
import concurrent.futures
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOGS = ROOT / "build/test"
SANITIZER_ENV = {
    "ASAN_OPTIONS": "detect_leaks=1:strict_string_checks=1",
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
}
# numpy starts a thread for each processor, which spins a while: a fifth of what the end-to-end tests used.
NUMPY_ENV = {"OPENBLAS_NUM_THREADS": "1"}
# ThreadSanitizer of gcc 12 does not start where addresses are randomised widely.
UNRANDOMIZED = ["setarch", "-R"] if subprocess.run(["setarch", "-R", "true"], capture_output=True,
                                                   check=False).returncode == 0 else []


def count_meson(build, _, name):
    """Single tests of TAP programs, else whole programs, as meson's log has them."""
    passed = failed = 0
    for line in meson_log(build, name).read_text().splitlines() if meson_log(build, name).exists() else []:
        row = json.loads(line)
        out = row.get("stdout", "")
        ok = len(re.findall(r"^ok \d+", out, re.M))
        bad = len(re.findall(r"^not ok \d+", out, re.M))
        if row["result"] in ("OK", "EXPECTEDFAIL"):
            passed += max(ok, 1)
        elif row["result"] != "SKIP":
            passed, failed = passed + ok, failed + max(bad, 1)
    return passed, failed


def count_pytest(_, text, __):
    closing = text.rstrip().rsplit("\n", 1)[-1]
    found = {word: int(n) for n, word in re.findall(r"(\d+) (passed|failed|error)", closing)}
    return found.get("passed", 0), found.get("failed", 0) + found.get("error", 0)


def count_one(*_):
    return 1, 0


def count_runs(_, text, __):
    """The closing line of the failure sweep."""
    found = re.search(r"^(\d+) runs, (\d+) wrong$", text, re.M)
    return (int(found[1]) - int(found[2]), int(found[2])) if found else (0, 0)


# How pytest and meson name a test that failed.
FAILED = re.compile(r"^(?:FAILED|ERROR) \S.*|^ *\d+/\d+ .*\b(?:FAIL|ERROR|TIMEOUT|UNEXPECTEDPASS)\b.*", re.M)
NAMES_SHOWN = 20


def names_of_failed(step, text):
    """A line for each test of a failed step, else one for the step."""
    named = dict.fromkeys(" ".join(line.split()) for line in FAILED.findall(text))
    return [f"{step}: {line[:200]}" for line in named] or [f"{step}: see build/test/{log_name(step)}"]


def log_name(step):
    return re.sub(r"\W+", "-", step) + ".log"


def meson_log(build, step):
    return ROOT / build / "meson-logs" / (meson_logbase(step) + ".json")


def meson_logbase(step):
    """Each step has a log of its own: several may run at once."""
    return "test-" + re.sub(r"\W+", "-", step)


def meson_test(build, *suites):
    args = [word for suite in suites for word in ("--suite", suite)]
    return ["meson", "test", "-C", build, "--no-rebuild", "--print-errorlogs", *args]


def make(target):
    return ["make", "--no-print-directory", target]


def pytest(build, *args, folder="tests/e2e"):
    return ["env", f"ANYSERVE_BUILD={build}", sys.executable, "-m", "pytest", "-q", "--durations=30", folder, *args]


RELEASE, DEBUG, ASAN, TSAN = "build/release", "build/debug", "build/asan", "build/tsan"
# End-to-end tests wait for events most of the time: several files at once. What measures is not among them.
TWO_AT_ONCE = ["-n", "2", "--dist", "loadfile"]
THREE_AT_ONCE = ["-n", "3", "--dist", "loadfile"]
FIVE_AT_ONCE = ["-n", "5", "--dist", "loadfile"]

FOUR_OF_ONE_FILE = ["-n", "4", "--dist", "load"]

# The simulator of calls as it is, and with two faults, which it must find.
CALLS_SIM = ["calls_sim", "calls_sim_wait", "calls_sim_late"]

# name, command, how to count, build, how many closing lines to show, minutes it may take: about thrice what two quiet
# cores need, since it is for what hangs; a busy machine is slow, and not wrong
STEPS = [
    ("build", make("all"), count_one, RELEASE, 1, 36),
    ("layers", [sys.executable, "tools/check_layers.py"], count_one, RELEASE, 1, 6),
    ("sizes", [sys.executable, "tools/size_report.py"], count_one, RELEASE, 1, 6),
    ("docs", [sys.executable, "tools/check_docs.py"], count_one, RELEASE, 1, 6),
    ("unit", meson_test(RELEASE, "unit"), count_meson, RELEASE, 3, 15),
    ("simulator", [f"{RELEASE}/tests/sim/sim", "--seeds", "20000"], count_one, RELEASE, 2, 15),
    ("simulator of replicas", [f"{RELEASE}/tests/sim/plan_sim", "--seeds", "20000"], count_one, RELEASE, 2, 15),
    ("simulator of calls", [*meson_test(RELEASE), *CALLS_SIM], count_meson, RELEASE, 3, 9),
    ("corpora", meson_test(RELEASE, "fuzz"), count_meson, RELEASE, 3, 15),
    ("sdk", pytest(RELEASE, *THREE_AT_ONCE, folder="tests/python"), count_pytest, RELEASE, 1, 15),
    ("e2e", pytest(RELEASE, "-m", "not long and not core", *FIVE_AT_ONCE), count_pytest, RELEASE, 1, 48),
    ("serve programs", pytest(RELEASE, "-m", "not long", *FOUR_OF_ONE_FILE, folder="tests/serve_programs"), count_pytest,
     RELEASE, 1, 15),
    ("wheel", pytest(RELEASE, "-m", "not long", folder="tests/dist"), count_pytest, RELEASE, 1, 18),
    ("build conform", [sys.executable, "tests/conform/build_tools.py"], count_one, RELEASE, 2, 18),
    ("conform", pytest(RELEASE, "-m", "not long", folder="tests/conform"), count_pytest, RELEASE, 1, 15),
    ("compat", pytest(RELEASE, "-m", "not install", folder="tests/compat"), count_pytest, RELEASE, 1, 9),
    ("differ", pytest(RELEASE, folder="tests/differ"), count_pytest, RELEASE, 1, 6),
    ("sweep", [sys.executable, "tests/sweep/sweep.py", "--build", RELEASE, "--tls", "--quick", "30"], count_runs, RELEASE, 2, 6),
    ("build asan", make("asan"), count_one, ASAN, 1, 30),
    ("asan unit+corpora", meson_test(ASAN, "unit", "fuzz"), count_meson, ASAN, 3, 15),
    ("asan simulator", [f"{ASAN}/tests/sim/sim", "--seeds", "500"], count_one, ASAN, 2, 15),
    ("asan simulator of replicas", [f"{ASAN}/tests/sim/plan_sim", "--seeds", "500"], count_one, ASAN, 2, 15),
    ("asan simulator of calls", [*meson_test(ASAN), *CALLS_SIM], count_meson, ASAN, 3, 9),
    ("asan sweep", [sys.executable, "tests/sweep/sweep.py", "--build", ASAN, "--tls", "--quick", "18", "--runs", "50",
                    "--calls-only", "--kind", "call,interrupt,short"], count_runs, ASAN, 2, 6),
    ("asan e2e", pytest(ASAN, "-m", "core and not long", *FIVE_AT_ONCE), count_pytest, ASAN, 1, 42),
    ("build tsan", make("tsan"), count_one, TSAN, 1, 30),
    ("tsan unit", UNRANDOMIZED + meson_test(TSAN, "unit"), count_meson, TSAN, 3, 15),
    ("tsan stress", UNRANDOMIZED + pytest(TSAN, "-m", "stress"), count_pytest, TSAN, 1, 9),
]


# These use one processor each, or wait: two of a row run at once.
AT_ONCE = [
    ("layers", "sizes", "docs"),
    ("unit", "simulator", "simulator of replicas", "simulator of calls", "corpora"),
    ("wheel", "build conform"),
    ("conform", "compat", "differ", "sweep"),
    ("asan unit+corpora", "asan simulator", "asan simulator of replicas", "asan simulator of calls", "asan sweep"),
    ("tsan unit", "tsan stress"),
]

# Where one of these fails, the steps of its build are not run: their failures would say nothing.
BUILDING = ("build", "build asan", "build tsan")

# For whoever changes a line: against the build that is made fastest, with its assertions.
QUICK_STEPS = [
    ("build", make("debug"), count_one, DEBUG, 1, 6),
    ("layers", [sys.executable, "tools/check_layers.py"], count_one, DEBUG, 1, 1),
    ("sizes", [sys.executable, "tools/size_report.py"], count_one, DEBUG, 1, 1),
    ("docs", [sys.executable, "tools/check_docs.py"], count_one, DEBUG, 1, 1),
    ("unit", meson_test(DEBUG, "unit", "fuzz"), count_meson, DEBUG, 3, 3),
    ("simulator", [f"{DEBUG}/tests/sim/sim", "--seeds", "500"], count_one, DEBUG, 2, 2),
    ("simulator of replicas", [f"{DEBUG}/tests/sim/plan_sim", "--seeds", "1000"], count_one, DEBUG, 2, 2),
    ("e2e", pytest(DEBUG, "-m", "quick and not long", *TWO_AT_ONCE), count_pytest, DEBUG, 1, 4),
]


# The sanitized builds, made ahead of their steps out of what the tests leave of the processor.
AHEAD = ["nice", "-n", "19", "make", "--no-print-directory", "asan", "tsan"]


class Ahead:
    """One make in the background; its steps wait for it, and then say themselves what became of it."""

    def __init__(self, names):
        self.wanted = {"build", "build asan", "build tsan"} <= names
        self.process = None

    def after(self, name):
        if name == "build" and self.wanted:
            with (LOGS / "ahead.log").open("w") as out:
                self.process = subprocess.Popen(AHEAD, cwd=ROOT, stdout=out, stderr=subprocess.STDOUT,
                                                start_new_session=True)

    def before(self, name):
        if self.process and name.startswith("build "):
            self.process.wait()

    def end(self):
        if self.process and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
            self.process.wait()


def wait(process, minutes):
    """(exit code or a text, processor seconds). Who takes too long is interrupted: pytest then still names what failed so far."""
    late = threading.Event()

    def interrupt():
        late.set()
        process.send_signal(signal.SIGINT)

    timers = [threading.Timer(60 * minutes, interrupt), threading.Timer(60 * minutes + 30, process.kill)]
    for timer in timers:
        timer.start()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    for timer in timers:
        timer.cancel()
    return f"none after {minutes} minutes" if late.is_set() else process.returncode, used.ru_utime + used.ru_stime


def run(step):
    """(passed, failed, names of what failed, what is to be printed); a step that ends badly has at least one failure."""
    name, command, count, build, lines, minutes = step
    log = LOGS / log_name(name)
    if count is count_meson:
        meson_log(build, name).unlink(missing_ok=True)
        command = [*command, "--logbase", meson_logbase(name)]
    print(f"-- {name}", flush=True)
    start, used = time.monotonic(), 0.0
    with log.open("w") as out:
        try:
            code, used = wait(subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=subprocess.STDOUT,
                                               env=dict(os.environ, **SANITIZER_ENV, **NUMPY_ENV)), minutes)
        except OSError as e:
            code = e
    text = log.read_text(errors="replace")
    shown = [line for line in text.splitlines() if line.strip()]
    shown = [f"== {name}", *shown[-lines if code == 0 else -60:]]
    passed, failed = count(build, text, name) if code == 0 or count is not count_one else (0, 1)
    if code != 0 and not failed:
        failed = 1
    if code == 0 and not passed:
        shown.append(f"{name}: nothing was run")
        failed = 1
    shown.append(f"   {name}: {passed} passed, {failed} failed, {time.monotonic() - start:.0f} s, {used:.0f} s of processor time"
                 + ("" if code == 0 else f" (exit code {code}; all of it: {log.relative_to(ROOT)})"))
    return passed, failed, names_of_failed(name, text) if failed else [], "\n".join(shown)


def run_all(steps):
    """Yields (step, its result), in their order."""
    at_once = concurrent.futures.ThreadPoolExecutor(2)
    ahead = Ahead({s[0] for s in steps})
    unbuilt, started = set(), {}

    def start(step):
        name, build = step[0], step[3]
        if build in unbuilt:
            why = f"{name}: not run: {build} could not be built"
            return at_once.submit(lambda: (0, 1, [why], f"== {name}\n   {why}"))
        return at_once.submit(run, step)

    try:
        for step in steps:
            name = step[0]
            ahead.before(name)
            if name not in started:
                row = next((row for row in AT_ONCE if name in row), (name,))
                started |= {s[0]: start(s) for s in steps if s[0] in row}
            result = started[name].result()
            if name in BUILDING and result[1]:
                unbuilt.add(step[3])
            ahead.after(name)
            yield step, result
    finally:
        ahead.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="what `make quick` runs")
    parser.add_argument("--only", help="steps by name, with commas")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    steps = [s for s in (QUICK_STEPS if options.quick else STEPS) if not options.only or s[0] in options.only.split(",")]
    if options.list:
        print("\n".join(f"{s[0]:20} {' '.join(s[1])}" for s in steps))
        return 0
    LOGS.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    results = []
    for _, result in run_all(steps):
        print(result[3], flush=True)
        results.append(result)
    passed, failed = (sum(row[column] for row in results) for column in (0, 1)) if results else (0, 1)
    names = [name for row in results for name in row[2]]
    for name in names[:NAMES_SHOWN]:
        print(name)
    if len(names) > NAMES_SHOWN:
        print(f"and {len(names) - NAMES_SHOWN} more")
    print(f"time: {(time.monotonic() - start) / 60:.1f} minutes")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
