"""Tables and plots of what was measured."""

import os
import platform
import re
import subprocess
from pathlib import Path
from statistics import median

from peers import RAY_PYTHON

COLOURS = {"anyserve": "#1b6ca8", "ray": "#b5542b", "ray throughput": "#d98b5f", "ray haproxy": "#e8bfa3", "uvicorn": "#4f8a4a",
           "granian": "#9cc28f"}  # fmt: skip


def load_average():
    """Of the last minute: how many processes wanted a core."""
    return os.getloadavg()[0]


def machine():
    cpu = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    return f"{os.cpu_count()} cores ({cpu[1] if cpu else platform.machine()}), {platform.system()} {platform.release()}"


def versions():
    names = ("ray", "uvicorn", "granian", "fastapi")
    code = f"import importlib.metadata as m; print(', '.join('%s %s' % (p, m.version(p)) for p in {names}))"
    return subprocess.run([RAY_PYTHON, "-c", code], capture_output=True, text=True, check=False).stdout.strip()


def values(samples, field, **wanted):
    return [s[field] for s in samples if all(s[k] == v for k, v in wanted.items())]


def ratios(samples, app, concurrency, peer, field):
    """AnyServe's to the peer's, round by round."""
    here = [s for s in samples if s["app"] == app and s["concurrency"] == concurrency]
    mine, theirs = ({s["round"]: s[field] for s in here if s["peer"] == p} for p in ("anyserve", peer))
    return [mine[r] / theirs[r] for r in mine if r in theirs and theirs[r]]


def distinct(samples, field):
    return list(dict.fromkeys(s[field] for s in samples))


def _factor(found):
    return f"{median(found):.2f} ({min(found):.2f}–{max(found):.2f})" if found else ""


def spread(found, digits=1):
    """The median, with the extremes where they differ. None in it: what never was."""
    found = [v for v in found if v is not None]
    if not found:
        return "never"
    low, middle, high = (f"{v:,.{digits}f}" for v in (min(found), median(found), max(found)))
    return middle if low == high else f"{middle} ({low}–{high})"


def columns(samples, keys, fields):
    """A Markdown table with a row for each value of the keys. keys: (name, title); fields: (name, title, digits)."""
    rows = ["| " + " | ".join(title for _, title, *_ in [*keys, *fields]) + " |", "|---" * (len(keys) + len(fields)) + "|"]
    for row in dict.fromkeys(tuple(s[name] for name, _ in keys) for s in samples):
        mine = [s for s in samples if tuple(s[name] for name, _ in keys) == row]
        cells = [*map(str, row), *(spread([s[name] for s in mine], digits) for name, _, digits in fields)]
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows)


def table(samples, app):
    rows = ["| concurrency | server | requests/s | p50 ms | p99 ms | AnyServe's requests/s ÷ its | AnyServe's p99 ÷ its |",
            "|---|---|---|---|---|---|---|"]  # fmt: skip
    mine = [s for s in samples if s["app"] == app]
    for concurrency in distinct(mine, "concurrency"):
        for peer in distinct(mine, "peer"):
            rate = values(mine, "rate", concurrency=concurrency, peer=peer)
            if not rate:
                continue
            spread = f"{median(rate):,.0f} ({min(rate):,.0f}–{max(rate):,.0f})"
            p50, p99 = (median(values(mine, f, concurrency=concurrency, peer=peer)) for f in ("p50", "p99"))
            other = peer != "anyserve"
            rows.append(f"| {concurrency} | {peer} | {spread} | {p50:.2f} | {p99:.2f} | "
                        f"{_factor(ratios(samples, app, concurrency, peer, 'rate')) if other else ''} | "
                        f"{_factor(ratios(samples, app, concurrency, peer, 'p99')) if other else ''} |")  # fmt: skip
    return "\n".join(rows)


def plot(samples, app, title, path):
    """Requests/s and p99 of each server at each concurrency; whiskers: the lowest and highest round."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "anyserve", "svg.fonttype": "none", "font.size": 9})
    from matplotlib import pyplot

    mine = [s for s in samples if s["app"] == app]
    peers, loads = distinct(mine, "peer"), distinct(mine, "concurrency")
    figure, axes = pyplot.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
    for axis, field, label in ((axes[0], "rate", "requests/s"), (axes[1], "p99", "p99, ms")):
        width = 0.8 / len(peers)
        for i, peer in enumerate(peers):
            found = [values(mine, field, peer=peer, concurrency=c) for c in loads]
            at = [x + (i - (len(peers) - 1) / 2) * width for x in range(len(loads))]
            heights = [median(f) if f else 0 for f in found]
            spread = [[h - min(f or [h]) for h, f in zip(heights, found)], [max(f or [h]) - h for h, f in zip(heights, found)]]
            axis.bar(at, heights, width, label=peer, color=COLOURS.get(peer), yerr=spread, error_kw={"linewidth": 0.7})
        axis.set_yscale("log")
        axis.set_xticks(range(len(loads)), [str(c) for c in loads])
        axis.set_xlabel("connections")
        axis.set_ylabel(label)
        axis.grid(axis="y", linewidth=0.3)
        axis.set_axisbelow(True)
    figure.suptitle(title)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", frameon=False)
    figure.savefig(path, format="svg", metadata={"Date": None})
    pyplot.close(figure)
