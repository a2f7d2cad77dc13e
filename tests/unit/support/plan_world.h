/* tests/unit/support/plan_world.h — a deployment "d" whose ops write what its plan asks for into a
 * log.
 *
 * The log has these entries; N is the number of a slot:
 *   +N    start       -N  retire       !N  stop        xN  kill        ~N  gone
 *   ?N    configure; ?N:r2 when the rank is to be 2 and is another one now
 *   HEALTHY           the status has changed to this
 *   7<9   generation 9 was rolled back to 7            *7  generation 7 is settled
 *   DOWN, UP          the deployment is down, or is not any more
 *
 * A slot takes `need` free devices when it starts, and has them until it is given up or removed.
 */
#ifndef PLAN_WORLD_H
#define PLAN_WORLD_H

#include "core/replicas/plan.h"
#include "core/replicas/ranks.h"

#include "unit.h"

#include <string.h>

#define START (1000 * AS_SEC)

#define WORLD_VERSIONS 8u
#define WORLD_SLOTS    64u

struct world {
    struct as_plan *p;
    struct as_start_limit starts;
    struct as_plan_target t; /* the next target */
    as_ns now;
    uint32_t devices,
        *free;     /* number of free ones, maybe in another world that has the same machine */
    uint32_t kept; /* reserved for new slots */
    uint32_t need[WORLD_VERSIONS]; /* by version */
    uint32_t has[WORLD_SLOTS];     /* by number of the slot */
    uint32_t notes;
    uint64_t first_ask, ask; /* the last one */
    struct as_replica_slot_facts to;
    enum as_condition_status status;
    size_t n;
    char log[4096];
};

AS_PRINTF(2, 3) static inline void write_down(struct world *w, const char *fmt, ...)
{
    va_list ap;

    if (w->n)
        w->log[w->n++] = ' ';
    va_start(ap, fmt);
    w->n += (size_t)vsnprintf(w->log + w->n, sizeof(w->log) - w->n, fmt, ap);
    va_end(ap);
    assert_true(w->n < sizeof(w->log));
}

static inline uint32_t number(const struct as_replica_slot *slot)
{
    return as_replica_slot_facts(slot)->number;
}

static inline uint32_t *devices_of(struct world *w, const struct as_replica_slot *slot)
{
    return &w->has[number(slot) % WORLD_SLOTS];
}

static inline uint32_t missing(struct world *w, const struct as_replica_slot *slot)
{
    return w->need[as_replica_slot_facts(slot)->version % WORLD_VERSIONS] - *devices_of(w, slot);
}

static inline struct as_str world_lacks(void *ctx, const struct as_replica_slot *slot,
                                        const struct as_plan_headroom *room)
{
    struct world *w = ctx;
    uint32_t there = *w->free + (room->kept ? w->kept : 0);

    for (uint32_t i = 0; i < room->n; i++)
        there += *devices_of(w, room->ended[i]);
    return missing(w, slot) > there ? AS_STR("no device") : AS_STR("");
}

static inline bool world_release(void *ctx)
{
    struct world *w = ctx;
    uint32_t n = w->kept;

    *w->free += n;
    w->kept = 0;
    return n != 0;
}

static inline void world_start(void *ctx, struct as_replica_slot *slot)
{
    struct world *w = ctx;
    uint32_t n = missing(w, slot), of_free = AS_MIN(n, *w->free);

    write_down(w, "+%u", number(slot));
    assert_true(n - of_free <= w->kept);
    *w->free -= of_free;
    w->kept -= n - of_free;
    *devices_of(w, slot) += n;
}

static inline void give_back(struct world *w, const struct as_replica_slot *slot)
{
    w->kept += *devices_of(w, slot);
    *devices_of(w, slot) = 0;
}

static inline void world_note(void *ctx, struct as_replica_slot *slot AS_UNUSED)
{
    ((struct world *)ctx)->notes++;
}

static inline void world_configure(void *ctx, struct as_replica_slot *slot, uint64_t ask,
                                   const struct as_replica_slot_facts *to)
{
    struct world *w = ctx;

    w->ask = ask;
    w->first_ask = w->first_ask ? w->first_ask : ask;
    w->to = *to;
    if (to->rank != as_replica_slot_facts(slot)->rank)
        write_down(w, "?%u:r%u", number(slot), to->rank);
    else
        write_down(w, "?%u", number(slot));
}

static inline void world_retire(void *ctx, struct as_replica_slot *slot)
{
    write_down(ctx, "-%u", number(slot));
}

static inline void world_stop(void *ctx, struct as_replica_slot *slot, as_ns timeout)
{
    assert_int_equal(timeout, ((struct world *)ctx)->t.policy.stop_timeout);
    write_down(ctx, "!%u", number(slot));
}

static inline void world_kill(void *ctx, struct as_replica_slot *slot, struct as_str why)
{
    assert_true(why.n);
    write_down(ctx, "x%u", number(slot));
}

static inline void world_moved(void *ctx, struct as_replica_slot *slot,
                               enum as_replica_slot_state from)
{
    assert_int_not_equal(as_replica_slot_state(slot), from);
    if (as_replica_slot_state(slot) == AS_REPLICA_SLOT_DOWN)
        give_back(ctx, slot);
}

static inline void world_gone(void *ctx, struct as_replica_slot *slot)
{
    write_down(ctx, "~%u", number(slot));
    give_back(ctx, slot);
}

static inline void world_condition(void *ctx, const struct as_condition *c)
{
    struct world *w = ctx;

    if (c->status != w->status)
        write_down(w, "%s", as_condition_status_name(c->status));
    w->status = c->status;
}

static inline void world_rolled_back(void *ctx, uint64_t from, uint64_t to,
                                     struct as_str why AS_UNUSED)
{
    write_down(ctx, "%u<%u", (unsigned)to, (unsigned)from);
}

static inline void world_down(void *ctx, bool down, struct as_str why AS_UNUSED)
{
    write_down(ctx, down ? "DOWN" : "UP");
}

static inline void world_settled(void *ctx, const struct as_plan_target *t)
{
    write_down(ctx, "*%u", (unsigned)t->generation);
}

static const struct as_plan_ops world_ops = {.lacks = world_lacks,
                                             .release = world_release,
                                             .start = world_start,
                                             .note = world_note,
                                             .configure = world_configure,
                                             .retire = world_retire,
                                             .stop = world_stop,
                                             .kill = world_kill,
                                             .moved = world_moved,
                                             .gone = world_gone,
                                             .condition = world_condition,
                                             .rolled_back = world_rolled_back,
                                             .down = world_down,
                                             .settled = world_settled};

static const struct as_plan_target usual = {
    .generation = 1,
    .version = 1,
    .config = 1,
    .replicas = 3,
    .policy =
        {.restart = {.base = 100 * AS_MS, .max = 30 * AS_SEC, .healthy = 10 * AS_SEC, .give_up = 5},
         .start_timeout = 60 * AS_SEC,
         .configure_timeout = 5 * AS_SEC,
         .drain_timeout = 20 * AS_SEC,
         .drain_interval = 2 * AS_SEC,
         .stop_timeout = 10 * AS_SEC,
         .roll_percent = 20,
         .roll_failures = 3,
         .roll_back = true},
};

/* A plan before as_plan_run. */
static inline void world_init(struct world *w)
{
    *w = (struct world){.now = START, .t = usual};
    w->free = &w->devices;
    as_start_limit_init(&w->starts, 100);
    assert_int_equal(as_plan_new(&w->p, AS_STR("d"), &w->starts, 7, &world_ops, w), 0);
}

static inline void world_fini(struct world *w)
{
    as_plan_free(w->p);
    assert_int_equal(w->starts.n, 0);
    assert_true(as_list_empty(&w->starts.line));
}

/* Compares the log since the last call. */
static inline void expect(struct world *w, const char *want)
{
    assert_true(as_plan_ok(w->p));
    w->log[w->n] = 0;
    assert_string_equal(w->log, want);
    w->n = 0;
}

static inline void deploy(struct world *w)
{
    assert_int_equal(as_plan_set_target(w->p, &w->t, w->now), 0);
}

struct world_find {
    uint32_t number;
    struct as_replica_slot *found;
};

static inline void world_match(void *arg, struct as_replica_slot *slot)
{
    struct world_find *f = arg;

    if (number(slot) == f->number)
        f->found = slot;
}

static inline struct as_replica_slot *find_place(struct world *w, uint32_t n)
{
    struct world_find f = {.number = n};

    as_plan_each(w->p, world_match, &f);
    return f.found;
}

static inline struct as_replica_slot *slot_of(struct world *w, uint32_t n)
{
    struct as_replica_slot *slot = find_place(w, n);

    assert_non_null(slot);
    return slot;
}

static inline uint32_t rank(struct world *w, uint32_t n)
{
    return as_replica_slot_facts(slot_of(w, n))->rank;
}

static inline enum as_replica_slot_state state(struct world *w, uint32_t n)
{
    return as_replica_slot_state(slot_of(w, n));
}

static inline void ready(struct world *w, uint32_t n)
{
    as_replica_slot_ready(slot_of(w, n), w->now);
}

static inline void died(struct world *w, uint32_t n, enum as_exit_kind kind)
{
    as_replica_slot_died(slot_of(w, n), kind, AS_STR("it ended"), w->now);
}

/* A slot drains at once and ends when it is stopped; the log of this is dropped. */
static inline void ends(struct world *w, uint32_t n)
{
    size_t before = w->n;

    as_replica_slot_retired(slot_of(w, n), w->now);
    w->n = before;
    died(w, n, AS_EXIT_STOPPED);
}

static inline void answer(struct world *w, uint32_t n, bool ok)
{
    as_replica_slot_configured(slot_of(w, n), w->ask, ok, AS_STR("no"), w->now);
}

/* Lets time pass until `when`, and does what is due on the way. */
static inline void pass(struct world *w, as_ns time)
{
    as_ns end = w->now + time;

    while (as_plan_next_due(w->p) <= end) {
        assert_true(as_plan_next_due(w->p) > w->now || as_plan_next_due(w->p) >= START);
        w->now = AS_MAX(w->now, as_plan_next_due(w->p));
        as_plan_tick(w->p, w->now);
        assert_true(as_plan_next_due(w->p) > w->now);
    }
    w->now = end;
}

/* Carries out everything that the plan asks for until there is nothing more, except for slots that
 * wait; the log is dropped. */
static inline void calm_but(struct world *w, uint32_t waiting)
{
    for (uint32_t turn = 0; turn < 1000; turn++) {
        bool busy = false;

        for (uint32_t i = 0; i < 64; i++) {
            struct as_replica_slot *slot = find_place(w, i);
            enum as_replica_slot_state s =
                slot ? as_replica_slot_state(slot) : AS_REPLICA_SLOT_RUNNING;

            if (s == AS_REPLICA_SLOT_STARTING || s == AS_REPLICA_SLOT_LOST)
                as_replica_slot_ready(slot, w->now);
            if (s == AS_REPLICA_SLOT_UPDATING) {
                for (uint64_t ask = w->first_ask; ask <= w->ask; ask++)
                    if (find_place(w, i) && as_replica_slot_state(slot) == AS_REPLICA_SLOT_UPDATING)
                        as_replica_slot_configured(slot, ask, true, AS_STR(""), w->now);
            }
            if (s == AS_REPLICA_SLOT_DRAINING)
                as_replica_slot_retired(slot, w->now);
            if (s == AS_REPLICA_SLOT_STOPPING)
                died(w, i, AS_EXIT_STOPPED);
            busy |= s != AS_REPLICA_SLOT_RUNNING && i != waiting;
        }
        if (!busy) {
            w->n = 0;
            return;
        }
        w->n = 0;
    }
    fail_msg("it does not come to rest");
}

static inline void calm(struct world *w)
{
    calm_but(w, UINT32_MAX);
}

/* Three healthy replicas of version 1. */
static inline void world_healthy(struct world *w)
{
    world_init(w);
    deploy(w);
    as_plan_set_serving(w->p, true, w->now);
    as_plan_run(w->p, w->now);
    calm(w);
    assert_true(as_plan_is_settled(w->p));
    assert_int_equal(w->status, AS_STATUS_HEALTHY);
}

#endif
