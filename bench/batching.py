"""The section on dynamic batching: the command-line client against bench/models/batch_model.py."""

import json
import subprocess
from statistics import median

from report import table
from sampling import milliseconds

IN_FLIGHT = 64
SECONDS_LEAST = 3  # of a sample: a second has 60 pairs of batches, whose p99 would be the worst one
MODELS = {"alone": 0, "natural": 0, "full": 5}  # and max_wait in ms
FIXED_MS, ITEM_MS = 5, 0.1


def sample(server, model, options):
    command = [server.build / "src/app/anyserve", "bench", model, "--url", f"127.0.0.1:{server.port}", "--json",
               "--connections", 16, "--streams", IN_FLIGHT // 16,
               "--duration", milliseconds(max(options.seconds, SECONDS_LEAST)), "--warmup", milliseconds(options.warmup)]
    before = sizes(server, model)
    done = subprocess.run([str(c) for c in command], check=True, capture_output=True, text=True)
    after = sizes(server, model)
    result = json.loads(done.stdout)
    result["batch"] = (after[1] - before[1]) / (after[0] - before[0]) if after[0] > before[0] else 1
    return result


def sizes(server, deployment):
    """Calls of the model, and their items."""
    counts = server.counters_of(deployment)
    return counts.get("anyserve_batch_size_count", 0), counts.get("anyserve_batch_size_sum", 0)


def batching(stage):
    """### Dynamic batching: a model of 5 ms + 0.1 ms for each item, 64 calls in flight (nothing pinned)

    The handler sleeps, as one does that waits for an accelerator. `alone`: no batching. `natural`: a call takes what
    has come while the one before it ran. `full`: it waits up to 5 ms for 64 items. *Bound*: max_wait and two
    executions of the mean size.
    """
    rows, base = [], None
    for server in stage.servers("anyserve batching"):
        for model, wait in MODELS.items():
            samples = [sample(server, model, stage.options) for _ in range(stage.options.repetitions)]
            rate = median(s["per_second"] for s in samples)
            size = median(s["batch"] for s in samples)
            base = base or rate
            execution = FIXED_MS + ITEM_MS * size
            rows.append([model, f"{rate:.0f}", f"{rate / base:.1f}", f"{size:.1f}",
                         *(f"{median(s['latency_us'][key] for s in samples) / 1000:.1f}" for key in ("p50", "p99")),
                         f"{wait + 2 * execution:.1f}" if model != "alone" else ""])
    return table(["model", "requests/s", "ratio to alone", "items per call", "p50 ms", "p99 ms", "bound ms"], rows)
