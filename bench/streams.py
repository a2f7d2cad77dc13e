"""The section on streams: the command-line client against a generator, over gRPC and as server-sent events."""

import json
from dataclasses import dataclass
from statistics import median

from report import cpu_cell, others_cell, spread, table, thousands
from rest import CHUNKS
from sampling import PINNED, UNPINNED, Load, measure, mid, milliseconds, ratios
from servers import Failed

PEER = "grpcio aio"


@dataclass(frozen=True)
class Streams(Load):
    """Each call is a stream of CHUNKS responses."""

    def command(self, server, options):
        return [server.build / "src/app/anyserve", "bench", "count", "--url", f"127.0.0.1:{server.port}", "--json",
                "--stream", "--input", f"n:INT32={CHUNKS}", "--connections", self.connections, "--warmup", "off",
                "--duration", milliseconds(max(options.seconds, 0.5)), "--protocol",
                "http" if server.name.endswith("SSE") else "grpc"]

    def read(self, text):
        result = json.loads(text)
        if result["ok"] != result["due"] or not result["ok"]:
            raise Failed(f"anyserve bench: {text[:500]}")
        # without a warm-up all CPU time is that of these calls, and of the one that is made first
        return {"per_second": result["responses_per_second"], "total": (result["ok"] + 1) * CHUNKS,
                "first_us": result["first_response_us"]["p50"], "latency_us": result["latency_us"]["p50"]}


def streams(stage):
    """### Streams: responses/s of ModelStreamInfer and of generate_stream

    A generator gives 1000 responses of one INT32 to each request, one request to each stream; the client is
    `anyserve bench --stream`, which reads every message and every event. `grpcio aio` sends the same messages from an
    asynchronous generator that fills in one prepared message. Pinned: client on core 0, dispatcher and worker, or the
    other server, on core 1; unpinned: as the scheduler likes.
    """
    servers = stage.servers("anyserve count", "anyserve count, SSE", PEER)
    rows = []
    for placement in (PINNED, UNPINNED) if servers else ():
        result = measure(servers, [Streams(1, 1), Streams(16, 1)], stage.options, placement,
                         f"streams {placement.name}")
        for load, by_server in result.items():
            for name, samples in by_server.items():
                rows.append([placement.name, str(load), name, thousands(mid(samples, "per_second")),
                             spread(ratios(samples, by_server[PEER])) if PEER in by_server else "",
                             f"{mid(samples, 'first_us') / 1000:.2f}", f"{mid(samples, 'latency_us') / 1000:.2f}",
                             cpu_cell(samples), f"{100 * median(s['client'] for s in samples):.0f} %",
                             others_cell(samples)])
    return table(["placement", "load", "server", "responses/s", f"ratio to {PEER} [min..max]", "first response p50 ms",
                  "whole stream p50 ms", "CPU µs per response", "client's CPU", "others' CPU"], rows) if rows else ""
