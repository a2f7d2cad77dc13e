"""What a number of replicas over time, and the answers meanwhile, come to: figures and a plot."""

import bisect

import load
from report import COLOURS
from scenarios import SERVICE

SLOW = 2 * SERVICE  # seconds: an answer that took longer has waited


def turns(counts):
    """How often the number changes its direction."""
    numbers = [n for _, n in counts]
    signs = [b > a for a, b in zip(numbers, numbers[1:]) if a != b]
    return sum(a != b for a, b in zip(signs, signs[1:]))


def number_at(counts, t):
    """The number at time t; counts: (time, number), in the order of time."""
    return counts[max(0, bisect.bisect_right(counts, (t, float("inf"))) - 1)][1]


def more_after(counts, since):
    """Seconds from `since` until there is one replica more; None: there never is."""
    before = number_at(counts, since)
    return next((t - since for t, n in counts if t >= since and n > before), None)


def fewest_after(counts, since, fewest):
    """Seconds from `since` until there are `fewest` replicas for good; None: there are more at the end."""
    more = [k for k, (_, n) in enumerate(counts) if n > fewest]
    if more and more[-1] == len(counts) - 1:
        return None
    return max(0.0, counts[more[-1] + 1][0] - since) if more else 0.0


def replica_seconds(counts):
    return sum(n * (later - t) for (t, n), (later, _) in zip(counts, counts[1:]))


def longest_wait(scenario, answers):
    """Seconds from a rise of the load to the last request that was slow or failed before the load rose again or fell: the most."""
    until = [*scenario.up[1:], scenario.down]
    slow = [due for due, seconds, status in answers if seconds > SLOW or status != 200]
    return max((due - rise for rise, end in zip(scenario.up, until) for due in slow if rise <= due < end), default=0.0)


def missed(scenario, found):
    """The scenario's goals that these figures do not reach, as text."""
    return [f"{scenario.name}: {figure} {found[figure]:g}, wanted at most {most:g}" for figure, most in scenario.goals.items()
            if found[figure] > most]


def figures(scenario, counts, answers):
    """Of one run. counts: (seconds since the load began, replicas); answers: (seconds when due, seconds that it took, status), in
    the order of the first."""
    took = [seconds * 1000 for _, seconds, _ in answers]
    fewest = scenario.autoscaling_config["min_replicas"]
    at_rise = [next((seconds for due, seconds, _ in answers if due >= r), 0.0) for r in scenario.up]
    return {"requests": len(answers), "failed": sum(status != 200 for _, _, status in answers),
            "p50": load.percentile(took, 50), "p99": load.percentile(took, 99), "slow": sum(t > SLOW * 1000 for t in took),
            "first": max(at_rise) * 1000, "most": max(n for _, n in counts), "more_after": more_after(counts, scenario.up[0]),
            "normal_after": longest_wait(scenario, answers), "fewest_after": fewest_after(counts, scenario.down, fewest),
            "turns": turns(counts), "replica_seconds": replica_seconds(counts)}  # fmt: skip


def plot(scenario, runs, path):
    """runs: {server: (counts, answers)}, as figures() has them."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "anyserve", "svg.fonttype": "none", "font.size": 9})
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 1, figsize=(7, 5), sharex=True, layout="constrained")
    times = [k * 0.05 for k in range(round(scenario.seconds / 0.05) + 1)]
    wanted = [scenario.rate(t) * SERVICE for t in times]
    axes[0].fill_between(times, wanted, color="#dddddd", step="post", label="load: requests at a time")
    for server, (counts, answers) in runs.items():
        colour = COLOURS.get(server)
        axes[0].step([t for t, _ in counts], [n for _, n in counts], where="post", color=colour, label=f"{server}: replicas")
        axes[1].plot([a[0] for a in answers], [a[1] for a in answers], ".", markersize=3, color=colour, label=server)
    axes[0].set_ylabel("replicas")
    axes[1].set_ylabel("latency, s")
    axes[1].set_yscale("log")
    axes[1].set_xlabel("seconds")
    for axis in axes:
        axis.grid(linewidth=0.3)
        axis.set_axisbelow(True)
        axis.legend(frameon=False, fontsize=8)
    figure.suptitle(f"{scenario.name}\n{scenario.about}", fontsize=8)
    figure.savefig(path, format="svg", metadata={"Date": None})
    pyplot.close(figure)
