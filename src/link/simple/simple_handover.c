/* Simple workers pass to another dispatcher. */
#include "base/err.h"
#include "link/simple/simple_internal.h"

#include <string.h>

/* --- what a next dispatcher will have to know --- */

void as_simple_keep(struct as_simple *s, const struct as_frame_register *model)
{
    struct as_frame_register m = *model;
    struct as_outq q;
    struct iovec iov[64];
    int n;

    m.max_ongoing = AS_MAX(m.max_ongoing, m.budget);
    as_outq_init(&q);
    if (as_frame_put_register(&q, &m) == 0 && !q.broken) {
        n = as_outq_iov(&q, iov, (int)AS_COUNT(iov));
        for (int i = 0; i < n; i++)
            as_buf_add(&s->said, iov[i].iov_base, iov[i].iov_len);
        if (s->said.n != q.bytes) /* in more pieces than any that is handed on */
            as_buf_drop(&s->said, s->said.n);
    }
    as_outq_fini(&q);
}

void as_simple_each_legacy(struct as_fleet *f,
                           void (*fn)(void *arg, const struct as_simple_legacy *l), void *arg)
{
    for (size_t i = 0; f->simple && i < AS_COUNT(f->simple->bucket); i++) {
        AS_LIST_EACH(n, &f->simple->bucket[i])
        {
            const struct as_simple *s = AS_LIST_ENTRY(n, struct as_simple, known);
            struct as_simple_legacy l = {as_str_of(s->worker), as_str_of(s->address),
                                         as_buf_slice(&s->said), s->epoch};

            if (l.said.n)
                fn(arg, &l);
        }
    }
}

/* --- the former one: requests that it still has --- */

static uint32_t in_hand(const struct as_simple *s)
{
    uint32_t n = 0;

    AS_LIST_EACH(it, &s->waiting) n += it != NULL;
    AS_LIST_EACH(it, &s->busy) n += it != NULL;
    return n;
}

void as_simple_tell(struct as_simple *s)
{
    const struct as_simple_roster *all = s->up.fleet->simple;
    uint32_t n;

    if (!all->fewer || s->leaving || s->ended)
        return;
    n = in_hand(s);
    as_simple_wake(s, as_loop_now(s->up.fleet->loop)); /* for connections that rest */
    if (n >= s->kept)
        return;
    s->kept = n;
    all->fewer(all->arg, as_str_of(s->worker), s->epoch, n);
}

void as_simple_yield(struct as_fleet *f,
                     void (*fewer)(void *arg, struct as_str worker, uint64_t epoch, uint32_t n),
                     void *arg)
{
    if (!f->simple)
        return;
    f->simple->fewer = fewer;
    f->simple->arg = arg;
    for (size_t i = 0; i < AS_COUNT(f->simple->bucket); i++) {
        AS_LIST_EACH(n, &f->simple->bucket[i])
        {
            struct as_simple *s = AS_LIST_ENTRY(n, struct as_simple, known);

            s->kept = UINT32_MAX;
            as_simple_tell(s);
        }
    }
}

/* --- the next one --- */

int as_simple_inherit(struct as_fleet *f, const struct as_simple_legacy *l, char *why, size_t cap)
{
    struct as_simple_offer o = {.worker = l->worker, .address = l->address};
    struct as_frame_register m = {0};
    struct as_arena a;
    struct as_frame frame;
    const char *text = "it is no registration";
    uint64_t *copy = as_xalloc(l->said.n + sizeof(*copy)); /* frames are aligned */
    int err = AS_EPROTO;

    memcpy(copy, l->said.p, l->said.n);
    as_arena_init(&a, NULL, 0);
    if (as_frame_next((const uint8_t *)copy, l->said.n, &frame) == (int64_t)l->said.n &&
        frame.type == AS_FRAME_REGISTER)
        err = as_frame_get_register(&frame, &a, &m, &text);
    o.model = m;
    if (err)
        snprintf(why, cap, "%s", text);
    else
        err = as_simple_join_as(f, &o, l->epoch, why, cap);
    as_arena_fini(&a);
    free(copy);
    return err;
}

static void lend(struct as_simple *s, uint32_t n)
{
    if (n >= s->lent)
        return;
    s->lent = n;
    as_replica_grant(s->up.replica, s->slots - n, 0, as_loop_now(s->up.fleet->loop));
    as_fleet_refresh(s->up.deploy);
}

void as_simple_lent(struct as_fleet *f, struct as_str worker, uint64_t epoch, uint32_t n)
{
    for (size_t i = 0; f->simple && i < AS_COUNT(f->simple->bucket); i++) {
        AS_LIST_EACH(it, &f->simple->bucket[i])
        {
            struct as_simple *s = AS_LIST_ENTRY(it, struct as_simple, known);

            if (!worker.n || (s->epoch == epoch && as_str_eq(as_str_of(s->worker), worker)))
                lend(s, n);
        }
    }
}
