"""The controller dies at each of its failpoints while a server is scaled, updated, broken, mended, upgraded, begun and ended.

Clients notice nothing: 2 workers of idempotent handlers, 100 requests/s, none may fail, and the dispatcher stays the
process that it was. Each phase (`phases`) asks for something of its own (`orders`), and has the points of
src/ctl/state/failpoint.h that this leads to. For each of them: COUNT deaths, each with its own seed. A worker or the controller
may be killed beside it; the controller ends itself when it comes to the point for the first or second time. Who asked and
was not answered asks again. From the controller's death to everything being as asked for: at most 2 s, on a machine where
a worker starts in a quarter of a second. What was asked for without a death is `calm`, for comparison.

    scale    other numbers of replicas; a rolling restart
    update   rolling updates by version, bad ones that are taken back, another config, a rollback
    frail    an application is deployed that cannot start; it is revived; it is deleted
    hang     an update whose replicas are never ready, and are killed after 2 s: a time that begins anew with the next
             controller, and is allowed on top
    upgrade  `anyserve upgrade`; here clients call again, as the dispatcher is another one afterwards
    start    a server begins (without load)
    stop     it ends: with exit code 0, and nothing is left of it
    fatal    `run` of what cannot start ends with the code that it has without a death

Needs a build with -Dfailpoints=true: ANYSERVE_BUILD=build/debug. --only takes "PHASE POINT".
"""

import random
import subprocess

import rig
from scenarios import phases
from scenarios.phases import what
from support import paths

COUNT = 20
TRIES = 4  # times COUNT, at most, until a point has its deaths
CALM = 5  # one order in ten, beginning with the sixth, is also given without a death


def points():
    """All that this build has; empty when it has none."""
    out = subprocess.run([str(paths.BINARY), "failpoints"], capture_output=True, text=True, check=False)
    return out.stdout.split() if out.returncode == 0 else []


def deaths(phase, name, point, count, seed):
    """[(seconds, how to see it again)], `count` of them if the point is met often enough."""
    took = []
    for i in range(TRIES * count):
        if len(took) == count:
            break
        if i % 10 == CALM:
            phase.calmly_ordered(point, random.Random(f"{seed} {name} {point} calm {i}"))
        seconds = phase.play(point, random.Random(f"{seed} {name} {point} {i}"))
        took += [(seconds, f"{point} {i}")] if seconds is not None else []
    return took


def times(name, took):
    took = sorted(took)
    return {f"{name}_{text}_ms": round(1e3 * rig.quantile(took, q)) for text, q in (("p50", .5), ("p99", .99), ("max", 1))}


def judge(result, by_point, count, phase):
    took = sorted(t for rows in by_point.values() for t in rows)
    if few := {point: len(rows) for point, rows in by_point.items() if len(rows) < count}:
        result.fault(f"not met {count} times: {few}")
    if late := [f"{which} {seconds:.2f} s" for seconds, which in took if seconds > phase.most]:
        result.fault(f"{len(late)} of {len(took)} took over {phase.most} s: {', '.join(late[-5:])}")
    if phase.outcome and phase.outcome.errors:
        result.fault(f"{len(phase.outcome.errors)} errors: {phase.outcome.examples()}")
    if not phase.same:
        result.fault("the dispatcher is another one now")


def part(name, armed, chosen, options):
    phase, count, by_point = phases.PHASES[name](armed), options.count or COUNT, {}
    with phase.serving():
        for point in chosen:
            by_point[point] = deaths(phase, name, point, count, options.seed)
    result = rig.Result("failpoints", name, points=len(chosen), deaths=sum(map(len, by_point.values())),
                        **times("whole", (seconds for rows in by_point.values() for seconds, _ in rows)),
                        calm=len(phase.calm), **times("calm", phase.calm),
                        took_ms={p: [round(1e3 * s) for s, _ in rows] for p, rows in by_point.items()})
    if phase.outcome:
        result.figures |= phase.outcome.figures()
        result.add(phase.outcome)
    judge(result, by_point, count, phase)
    return result


def run(options):
    armed, all_points = phases.Armed(), points()
    if not all_points:
        result = rig.Result("failpoints", "no such build")
        result.fault("this build has no failpoints: configure one with -Dfailpoints=true")
        yield result
        return
    met = {point for phase in phases.PHASES.values() for point in all_points if what(point) in phase.types}
    assert met == set(all_points), f"no phase has {set(all_points) - met}"
    for name, phase in phases.PHASES.items():
        chosen = [p for p in all_points if what(p) in phase.types and options.wants(f"{name} {p}")]
        if chosen:
            yield part(name, armed, chosen, options)
