/* Handing simple workers over to another dispatcher. */
#include "base/err.h"
#include "link/simple/simple_internal.h"

#include <string.h>

/* --- registrations, for the new dispatcher --- */

void as_simple_save_registration(struct as_simple *s, const struct as_frame_register *model)
{
    struct as_frame_register m = *model;
    struct as_outq q;

    m.max_ongoing = AS_MAX(m.max_ongoing, m.budget);
    as_outq_init(&q);
    if (as_frame_put_register(&q, &m) == 0)
        as_outq_peek(&q, &s->encoded);
    as_outq_fini(&q);
}

void as_simple_each_registration(struct as_fleet *f,
                                 void (*fn)(void *arg,
                                            const struct as_simple_saved_registration *l),
                                 void *arg)
{
    for (size_t i = 0; f->simple && i < AS_COUNT(f->simple->bucket); i++) {
        AS_LIST_EACH_ENTRY(s, const struct as_simple, registry_node, &f->simple->bucket[i]) {
            struct as_simple_saved_registration l = {as_str_of(s->worker), as_str_of(s->address),
                                                     as_buf_slice(&s->encoded), s->epoch};

            if (l.encoded.n)
                fn(arg, &l);
        }
    }
}

/* --- the old dispatcher: requests that it still has --- */

static uint32_t count_in_flight(const struct as_simple *s)
{
    uint32_t n = 0;

    AS_LIST_EACH(it, &s->waiting) n += it != NULL;
    AS_LIST_EACH(it, &s->busy) n += it != NULL;
    return n;
}

void as_simple_report_in_flight(struct as_simple *s)
{
    const struct as_simple_registry *all = s->up.fleet->simple;
    uint32_t n;

    if (!all->on_fewer || s->leaving || s->ended)
        return;
    n = count_in_flight(s);
    as_simple_schedule(s, as_loop_now(s->up.fleet->loop)); /* closes idle connections */
    if (n >= s->reported_in_flight)
        return;
    s->reported_in_flight = n;
    all->on_fewer(all->arg, as_str_of(s->worker), s->epoch, n);
}

void as_simple_start_handover(struct as_fleet *f,
                              void (*fewer)(void *arg, struct as_str worker, uint64_t epoch,
                                            uint32_t n),
                              void *arg)
{
    if (!f->simple)
        return;
    f->simple->on_fewer = fewer;
    f->simple->arg = arg;
    for (size_t i = 0; i < AS_COUNT(f->simple->bucket); i++) {
        AS_LIST_EACH_ENTRY(s, struct as_simple, registry_node, &f->simple->bucket[i]) {
            s->reported_in_flight = UINT32_MAX;
            as_simple_report_in_flight(s);
        }
    }
}

/* --- the new dispatcher --- */

int as_simple_restore(struct as_fleet *f, const struct as_simple_saved_registration *l, char *why,
                      size_t cap)
{
    struct as_simple_registration o = {.worker = l->worker, .address = l->address};
    struct as_frame_register m = {0};
    struct as_arena a;
    struct as_frame frame;
    const char *text = "it is no REGISTER frame";
    uint64_t *copy = as_xalloc(l->encoded.n + sizeof(*copy)); /* frames are aligned */
    int err = AS_EPROTO;

    memcpy(copy, l->encoded.p, l->encoded.n);
    as_arena_init(&a, NULL, 0);
    if (as_frame_next((const uint8_t *)copy, l->encoded.n, &frame) == (int64_t)l->encoded.n &&
        frame.type == AS_FRAME_REGISTER)
        err = as_frame_get_register(&frame, &a, &m, &text);
    o.model = m;
    if (err)
        snprintf(why, cap, "%s", text);
    else
        err = as_simple_join_with_epoch(f, &o, l->epoch, why, cap);
    as_arena_fini(&a);
    free(copy);
    return err;
}

static void set_lent(struct as_simple *s, uint32_t n)
{
    if (n >= s->lent)
        return;
    s->lent = n;
    as_replica_grant(s->up.replica, s->slots - n, 0, as_loop_now(s->up.fleet->loop));
    as_fleet_update_ready(s->up.deploy);
}

void as_simple_limit_lent(struct as_fleet *f, struct as_str worker, uint64_t epoch, uint32_t n)
{
    for (size_t i = 0; f->simple && i < AS_COUNT(f->simple->bucket); i++) {
        AS_LIST_EACH_ENTRY(s, struct as_simple, registry_node, &f->simple->bucket[i]) {
            if (!worker.n || (s->epoch == epoch && as_str_eq(as_str_of(s->worker), worker)))
                set_lent(s, n);
        }
    }
}
