"""Draws the figure of `anyserve simulate --plot FILE`: the result as JSON is on stdin."""

import json
import os
import sys

INTERPRETER = 69  # src/conf/option/exit_code.h


def fail(text, code=1):
    print(f"anyserve simulate: --plot: {text}", file=sys.stderr)
    sys.exit(code)


def import_pyplot():
    try:
        import matplotlib
    except ImportError as e:
        fail(f"matplotlib cannot be imported by {sys.executable} ({e}): "
             f"{sys.executable} -m pip install matplotlib", INTERPRETER)
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "anyserve"  # equal results give equal files
    import matplotlib.pyplot
    return matplotlib.pyplot


def draw(plt, result):
    rows = result["over_time"]
    times = [row["from_s"] for row in rows] + [result["seconds"]]

    def steps(axis, key, label, **style):
        values = [row[key] for row in rows]
        axis.step(times, values + values[-1:], where="post", label=label, **style)

    figure, (load, queue, replicas, use) = plt.subplots(4, 1, sharex=True, figsize=(9, 10), layout="constrained")
    total = result["total"]
    figure.suptitle(f"{result['deployment']}, {result['router']}: p50 {total['p50_ms']:.1f} ms, "
                    f"p99 {total['p99_ms']:.1f} ms, {result['failed']} of {result['requests']} failed")
    steps(load, "arrived_per_s", "arrive")
    steps(load, "answered_per_s", "are answered")
    load.set_ylabel("requests per second")
    steps(queue, "queued", "on average")
    steps(queue, "most_queued", "at most", linewidth=0.8)
    queue.set_ylabel("queued requests")
    steps(replicas, "replicas", "serve")
    steps(replicas, "starting", "start", linewidth=0.8)
    replicas.set_ylabel("replicas")
    steps(use, "utilisation", "slots in use")
    use.set_ylabel("part of the slots")
    use.set_xlabel("seconds")
    for axis in (load, queue, replicas, use):
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
        axis.legend(loc="upper right")
    return figure


def main():
    path = sys.argv[1]
    result = json.load(sys.stdin)
    figure = draw(import_pyplot(), result)
    kind = path.rsplit(".", 1)[1].lower()
    temporary = f"{path}.new"  # the file is never half written
    try:
        figure.savefig(temporary, format=kind, dpi=120, metadata={"Date": None} if kind == "svg" else None)
        os.replace(temporary, path)
    except OSError as e:
        fail(f"{path}: {e.strerror or e}")


main()
