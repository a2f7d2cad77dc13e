"""Does the simulator of core/replicas/plan find mistakes? Breaks one rule at a time in a copy, and runs it.

python tests/sim/plan/faults.py [--seeds 6000] [--only WORD]; ends with 1 if a fault was not found, or if
its text is not in the source any more. By hand, when core/replicas/plan or its world has changed: two minutes of one core.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
UNIT = ["plan", "plan_leave", "plan_ranks", "plan_update", "plan_recovery", "plan_make_room"]
CORE = ["plan", "replica_slot", "rollout", "make_room", "plan_check", "start_limit", "ranks", "condition", "restart"]

# what is broken: file, what stands there, what stands there instead
FAULTS = {
    "a new place takes the highest rank held plus one": (
        "replica_slot", "as_ranks_lowest_free(&p->ranks);\n    as_ranks_reserve(&p->ranks, slot->facts.rank);",
        "p->ranks.n;\n    if (!as_ranks_is_held(&p->ranks, slot->facts.rank)) as_ranks_reserve(&p->ranks, slot->facts.rank);"),
    "a rank is free as soon as its replica drains": (
        "replica_slot", "    slot->facts.retiring = true;\n",
        "    slot->facts.retiring = true;\n    if (slot->facts.rank == slot->facts.rank_next) "
        "{ as_ranks_release(&slot->plan->ranks, slot->facts.rank); slot->facts.rank = slot->facts.rank_next = AS_RANK_NONE; }\n"),
    "the old rank is free while the move is under way": (
        "replica_slot", "    slot->configure_id = ++p->last_configure_id;\n",
        "    slot->configure_id = ++p->last_configure_id;\n    if (slot->facts.rank != slot->facts.rank_next) "
        "{ as_ranks_release(&p->ranks, slot->facts.rank); slot->facts.rank = slot->facts.rank_next; }\n"),
    "a refused move counts as made": ("replica_slot", "ok ? f->rank : f->rank_next);", "f->rank);\n        ok = true;"),
    "a configure that is sent twice and refused: the old rank counts as kept": (
        "replica_slot", "    if (!ok && slot->configure_facts.unsure)\n        return;\n", ""),
    "a crashed replica gets another rank": (
        "replica_slot", "    f->world = t->replicas;\n    f->unsure",
        "    { uint32_t other = as_ranks_lowest_free(&slot->plan->ranks); as_ranks_release(&slot->plan->ranks, f->rank); "
        "f->rank = f->rank_next = other; as_ranks_reserve(&slot->plan->ranks, other); }\n"
        "    f->world = t->replicas;\n    f->unsure"),
    "ranks move while something else is under way": ("rollout", "        if (is_complete(p))\n", "        if (p->n == p->target.replicas)\n"),
    "the move of a rank is not stored before it is sent": (
        "replica_slot", "    slot->facts.unsure = true;\n    save_facts(slot);\n", "    slot->facts.unsure = true;\n"),
    "ranks are never compacted": ("rollout", "            compact_ranks(p, now);", "            (void)compact_ranks;"),
    "the next controller does not know that a slot retires": (
        "replica_slot", "    slot->facts.retiring = true;\n    save_facts(slot);\n", "    slot->facts.retiring = true;\n"),
    "adopted: a retiring slot counts as one that stays": (
        "plan", "} else if (slot->facts.retiring) {", "} else if (false) {"),
    "adopted: two slots may hold one rank": (
        "plan", "if (!as_ranks_is_held(&p->ranks, facts->rank) && !as_ranks_is_held(&p->ranks, facts->rank_next))\n        adopt_ranks(slot, facts);",
        "if (!as_ranks_is_held(&p->ranks, facts->rank) && !as_ranks_is_held(&p->ranks, facts->rank_next))\n        adopt_ranks(slot, facts);\n"
        "    else { slot->facts.rank = slot->facts.rank_next = as_ranks_lowest_free(&p->ranks); as_ranks_reserve(&p->ranks, slot->facts.rank); }"),
    "adopted: the rank to which it moves is forgotten": (
        "plan", "    slot->facts.rank_next = f->rank_next;\n    as_ranks_reserve(r, f->rank);\n    if (f->rank_next != f->rank)\n        as_ranks_reserve(r, f->rank_next);",
        "    slot->facts.rank_next = f->rank;\n    as_ranks_reserve(r, f->rank);"),
    "adopted: an unconfirmed config counts as confirmed": (
        "plan", "    slot->facts = *facts;\n", "    slot->facts = *facts;\n    slot->facts.unsure = false;\n"),
    "adopted: one that starts is not counted": (
        "plan", "        as_start_limit_count(slot->plan->starts, &slot->start);", "        ;"),
    "answers to the previous controller are accepted": (
        "plan", "    p->last_configure_id = as_rand_next(&p->rand);\n", ""),
    "each replica that leaves has a successor at once, however many there are": (
        "rollout", "    if (c->live + c->early + c->leaves < wanted)\n", "    if (c->live + c->early < wanted)\n"),
    "a successor waits for the end of the one that leaves": (
        "rollout", "    return c->live + c->early < wanted ||\n", "    return c->live + c->early + c->leaves < wanted ||\n"),
    "the next controller does not know who leaves": (
        "plan", "    slot->facts = *facts;\n", "    slot->facts = *facts;\n    slot->facts.leaves = false;\n"),
    "old ones are retired as soon as new ones start": (
        "rollout", "return slot->state == AS_REPLICA_SLOT_RUNNING && is_trusted(slot);",
        "return (slot->state == AS_REPLICA_SLOT_RUNNING || slot->state == AS_REPLICA_SLOT_STARTING) && is_trusted(slot);"),
    "old ones are retired when N are available with them": (
        "rollout", "count_slots(p).available > least &&", "count_slots(p).available >= least &&"),
    "min_ready is ignored": ("rollout", "return is_stable(slot) || slot->facts.proved;", "return true;"),
    "the next controller does not know which slots were available": (
        "rollout", "            p->ops.note(p->ctx, slot);\n", ""),
    "idle old slots are retired before the new version was available": (
        "rollout", "if (serves_nobody(slot) && (p->proven || !is_stable(slot)))", "if (serves_nobody(slot))"),
    "slots that do not run are retired last": ("rollout", "return serving_value(a) < serving_value(b);", "return serving_value(a) > serving_value(b);"),
    "of slots that serve equally those that were available are retired first": (
        "rollout", "is_trusted(slot) ? 2u : 0u", "is_trusted(slot) ? 0u : 2u"),
    "an update fails without failures": ("rollout", "failures < p->target.policy.roll_failures", "false"),
    "a failed update goes on": (
        "rollout", "if (is_updating(p) && p->target.policy.roll_back) {", "if (false) {"),
    "a rolled-back update is tried again": (
        "rollout", "    as_plan_retarget(p, &p->stable);\n    p->proven = true;", "    p->proven = true;"),
    "a version without replicas is stable": (
        "rollout", "    if (!p->proven)\n        return false;\n", ""),
    "an update retires before it starts": ("rollout", "return AS_MAX(1u, (uint32_t)n);", "return (uint32_t)n;"),
    "a new config is not sent": ("rollout", "return f->config != t->config || f->world", "return f->world"),
    "a new number of replicas is not sent": ("rollout", "f->world != t->replicas || f->unsure", "f->unsure"),
    "a slot that refuses its rank is not replaced": ("replica_slot", "        as_replica_slot_mark_stale(slot);\n    }\n}\n", "        ;\n    }\n}\n"),
    "the next controller does not know which slots are stale": (
        "replica_slot", "    slot->facts.stale = true;\n    save_facts(slot);", "    slot->facts.stale = true;"),
    "the start limit is exceeded by one": ("start_limit", "if (a->n >= a->max)", "if (a->n > a->max)"),
    "a killed one goes on being counted as starting": (
        "replica_slot", "    if (to != AS_REPLICA_SLOT_STARTING && to != AS_REPLICA_SLOT_DRAINING)",
        "    if (to != AS_REPLICA_SLOT_STARTING && to != AS_REPLICA_SLOT_DRAINING && to != AS_REPLICA_SLOT_KILLED)"),
    "one that drains before it was ready is not counted": (
        "replica_slot", "    if (to != AS_REPLICA_SLOT_STARTING && to != AS_REPLICA_SLOT_DRAINING)", "    if (to != AS_REPLICA_SLOT_STARTING)"),
    "a start that hangs has no timeout": (
        "replica_slot", "    case AS_REPLICA_SLOT_STARTING:\n        kill_faulty(slot, AS_STR", "    case AS_REPLICA_SLOT_STARTING:\n        if (0) kill_faulty(slot, AS_STR"),
    "a lost link has no timeout": (
        "replica_slot", "    case AS_REPLICA_SLOT_LOST:\n        kill_faulty(slot, AS_STR", "    case AS_REPLICA_SLOT_LOST:\n        if (0) kill_faulty(slot, AS_STR"),
    "a configure has no timeout": (
        "replica_slot", "        kill_faulty(slot, AS_STR(\"reconfigure took too long\"), now);", "        ;"),
    "draining has no timeout": ("replica_slot", "    case AS_REPLICA_SLOT_DRAINING:\n        stop_process(slot, now);", "    case AS_REPLICA_SLOT_DRAINING:\n        ;"),
    "retire is not repeated": (
        "replica_slot", "    if (slot->state == AS_REPLICA_SLOT_DRAINING && slot->retire_at <= now)\n        ask_to_drain(slot, now);", ""),
    "one that drains and loses its link is not stopped": (
        "replica_slot", "    else if (slot->state == AS_REPLICA_SLOT_DRAINING) /* with its link it has lost its requests */\n        stop_process(slot, now);", ""),
    "stop without draining": ("replica_slot", "} else if (!slot->plan->serving) {", "} else if (true) {"),
    "a slot that was given up never starts again": (
        "replica_slot", "        set_state(slot, AS_REPLICA_SLOT_DOWN, now + target_policy(slot)->restart.max);", "        set_state(slot, AS_REPLICA_SLOT_DOWN, AS_NEVER);"),
    "one that drains is started again when it dies": (
        "replica_slot", "    if (as_replica_slot_is_ending(slot)) {\n        remove_slot(slot);", "    if (slot->state == AS_REPLICA_SLOT_STOPPING) {\n        remove_slot(slot);"),
    "links survive a dead dispatcher": (
        "replica_slot", "    if (!serving) {\n        handle_lost_link(slot, now);", "    if (!serving) {"),
    "without a dispatcher the deadlines run": (
        "replica_slot", "return slot->plan->serving ? now + timeout : AS_NEVER;", "return now + timeout;"),
    "an older version is started as the newer one": (
        "replica_slot", "    if (f->version == t->version) {\n", "    f->version = t->version;\n    {\n"),
    "max_unavailable is exceeded": ("rollout", "wanted - AS_MIN(wanted, unavailable_of(p))", "0"),
    "a part beyond N is rounded down": ("rollout", "return policy->has_surge ? resolve_amount(p, &policy->surge, true)", "return policy->has_surge ? resolve_amount(p, &policy->surge, false)"),
    "a part below N is rounded up": ("rollout", "&p->target.policy.unavailable, false)", "&p->target.policy.unavailable, true)"),
    "an update may neither surge nor retire one": ("rollout", "return n || surge_of(p) ? n : 1;", "return n;"),
    "a new one starts before the one that had to end first has ended": (
        "rollout", "if (c->live + c->early < wanted)", "if (c->live < wanted)"),
    "the next controller does not know which slot had to end first": (
        "rollout", "    slot->facts.early = !p->deleting && count_slots(p).live <= p->target.replicas;\n", ""),
    "idle old slots stay although slots may be missing": (
        "rollout", "c.live - c.not_available > least ? v : NULL;", "c.live - c.not_available > least && false ? v : NULL;"),
    "the surge does not count those that drain": (
        "rollout", "p->n < wanted + surge_of(p) &&", "c->live < wanted + surge_of(p) &&"),
    "one that lacks something starts": ("replica_slot", "    return lack.n == 0;", "    return true;"),
    "one that lacks something holds up the line": (
        "start_limit", "        if (!s->may_start(s, now))\n            continue;", "        if (!s->may_start(s, now))\n            return;"),
    "another plan does not check again when its slot lacks nothing any more": (
        "replica_slot", "        slot->plan->recheck_at = now;", "        ;"),
    "no slot is retired to make room": ("rollout", "while (as_make_room(p, now));", "while (0);"),
    "room is made for all at once": ("make_room", "    if (!is_enough(slot, &r, r.n)) {", "    r.n_ending = 0;\n    if (!is_enough(slot, &r, r.n)) {"),
    "room is made while others start": ("make_room", "} else if (is_at_rest(p) && !is_enough", "} else if (!is_enough"),
    "room is made where that does not help": ("make_room", "    if (!is_enough(slot, &r, r.n)) {", "    if (false) {"),
    "more end than are needed": ("make_room", "        shorten_list(slot, &r);\n", ""),
    "a slot without resources is retired": ("make_room", "        drop_unneeded(slot, &r);\n", ""),
    "what an update has freed is for all plans": (
        "make_room", "    if (!slot)\n        return p->ops.release(p->ctx);", "    if (p->ops.release(p->ctx))\n        return true;\n    if (!slot)\n        return false;"),
    "resources reserved for no slot are never released": (
        "make_room", "    if (!slot)\n        return p->ops.release(p->ctx);", "    if (!slot)\n        return false;"),
    "the resources of dead old slots are not considered": (
        "make_room", "bool dead = slot->state == AS_REPLICA_SLOT_WAITING || slot->state == AS_REPLICA_SLOT_DOWN;", "bool dead = slot->state == AS_REPLICA_SLOT_DOWN;"),
    "deletion leaves one": ("rollout", "    if (!p->deleting)\n        add_slots(p);", "    add_slots(p);\n    if (p->deleting && !p->n) as_replica_slot_new(p);"),
}


class Tree:
    """Objects of everything, made once; a fault costs one compilation and two links."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.core = [self.compile(ROOT / "src/core/replicas" / f"{name}.c") for name in CORE]
        self.core += [self.compile(ROOT / "src/base" / f"{name}.c") for name in ("str", "fatal")]
        world = [self.compile(path) for path in [*(ROOT / "tests/sim/plan").glob("*.c"), ROOT / "tests/sim/seeds.c"]]
        self.programs = {"sim": world}
        self.programs.update({f"t_{name}": [self.compile(ROOT / "tests/unit/core/replicas" / f"t_{name}.c")] for name in UNIT})

    def compile(self, path, into=None, folder=None):
        into = into or self.folder / (path.parent.name + "_" + path.stem + ".o")
        subprocess.run(["cc", "-std=gnu17", "-D_GNU_SOURCE", "-O1", "-w", f"-I{folder or path.parent}", f"-I{ROOT}/src",
                        f"-I{ROOT}/include", f"-I{ROOT}/tests/unit/support", "-c", str(path), "-o", str(into)], check=True)
        return into

    def link(self, program, fault=None):
        core = [fault if fault and path.name == fault.name.replace("fault_", "") else path for path in self.core]
        made = self.folder / program
        subprocess.run(["cc", *map(str, [*self.programs[program], *core]), "-lcmocka", "-o", str(made)], check=True)
        return str(made)

    def broken(self, name):
        """The object of the file with the fault in it."""
        file, old, new = FAULTS[name]
        text = (ROOT / "src/core/replicas" / f"{file}.c").read_text()
        if text.count(old) != 1:
            sys.exit(f"{name}: its text stands {text.count(old)} times in {file}.c")
        path = self.folder / f"{file}.c"
        path.write_text(text.replace(old, new))
        return self.compile(path, self.folder / f"fault_replicas_{file}.o", ROOT / "src/core/replicas")


def first_bad(command):
    """The first line that tells what failed; None: nothing has."""
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = (ran.stdout + ran.stderr).splitlines()
    if ran.returncode == 0:
        return None
    return next((line for line in lines if line.startswith("seed ") or "FAILED" in line), "it failed")


def check(tree, seeds, fault=None):
    """What found it, and how; None: nothing did."""
    if (bad := first_bad([tree.link("sim", fault), "--seeds", str(seeds)])):
        return bad
    for name in UNIT:
        if (bad := first_bad([tree.link(f"t_{name}", fault)])):
            return f"t_{name}: {bad}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=6000)
    parser.add_argument("--only", default="", help="faults that have this in their name")
    options = parser.parse_args()
    names = [name for name in FAULTS if options.only in name]
    found = {"simulator": 0, "unit tests": 0}
    with tempfile.TemporaryDirectory() as folder:
        tree = Tree(folder)
        if (bad := check(tree, options.seeds)):
            sys.exit(f"without a fault: {bad}")
        for name in names:
            how = check(tree, options.seeds, tree.broken(name))
            if how:
                found["simulator" if how.startswith("seed ") else "unit tests"] += 1
            print(f"{name}: {how or 'NOT FOUND'}", flush=True)
    print(f"{len(names)} deliberate faults; found by: {found}")
    return 0 if sum(found.values()) == len(names) else 1


if __name__ == "__main__":
    sys.exit(main())
