#include "app/controller/confirm.h"

struct waiting {
    struct as_list node;
    struct as_confirm *o;
    struct as_control_call *call;
    struct as_buf json;
    uint64_t id; /* of its CONFIRM */
    as_ns until;
};

static void free_waiting(struct waiting *w)
{
    as_list_remove(&w->node);
    as_buf_fini(&w->json);
    free(w);
}

static struct waiting *oldest(const struct as_confirm *o)
{
    return as_list_empty(&o->waiting) ? NULL : AS_LIST_ENTRY(o->waiting.next, struct waiting, node);
}

/* All have the same timeout: the oldest one's ends first. */
static void set_timer(struct as_confirm *o)
{
    const struct waiting *w = oldest(o);

    as_timer_set(&o->timer, w ? w->until : AS_NEVER);
}

static void answer(struct waiting *w)
{
    as_control_answer(w->call, 0, &w->json);
    free_waiting(w);
}

static void on_timeout(struct as_timer *t)
{
    struct as_confirm *o = AS_CONTAINER(t, struct as_confirm, timer);
    as_ns now = as_loop_now(o->loop);
    struct waiting *w;

    while ((w = oldest(o)) && w->until <= now) {
        as_log_event(o->log, AS_LOG_WARN, "not_confirmed",
                     "timeout_ms=%llu action=\"the change is stored and was answered; the "
                     "dispatcher learns of it later\"",
                     (unsigned long long)(o->timeout / AS_MS));
        answer(w);
    }
    set_timer(o);
}

/* The client has closed the connection; what it has changed stays. */
static void on_gone(void *arg)
{
    struct waiting *w = arg;
    struct as_confirm *o = w->o;

    as_control_answer(w->call, AS_ECANCELLED, NULL);
    free_waiting(w);
    set_timer(o);
}

void as_confirm_open(struct as_confirm *o, struct as_reconciler *reconciler, struct as_loop *loop,
                     as_ns timeout, const struct as_log *log)
{
    /* the time since boot is above the ids of former controllers, whose CONFIRMED may come late */
    *o = (struct as_confirm){.reconciler = reconciler,
                             .log = log,
                             .loop = loop,
                             .timeout = timeout,
                             .last = as_loop_now(loop)};
    as_list_init(&o->waiting);
    as_timer_init(&o->timer, loop, on_timeout);
}

void as_confirm_close(struct as_confirm *o)
{
    struct waiting *w;

    while ((w = oldest(o))) {
        as_control_answer(w->call, AS_ECANCELLED, NULL);
        free_waiting(w);
    }
    as_timer_close(&o->timer, NULL);
}

void as_confirm_answer(struct as_confirm *o, struct as_control_call *k, struct as_buf *json)
{
    struct waiting *w = as_xalloc(sizeof(*w));

    *w = (struct waiting){.o = o,
                          .call = k,
                          .json = *json,
                          .id = ++o->last,
                          .until = as_loop_now(o->loop) + o->timeout};
    *json = (struct as_buf){0};
    as_list_push(&o->waiting, &w->node);
    as_control_set_on_gone(k, on_gone, w);
    as_reconciler_send_confirm(o->reconciler, w->id);
    set_timer(o);
}

void as_confirm_handle(struct as_confirm *o, const struct as_ctl_message *m)
{
    struct waiting *w;

    if (m->type == AS_CTL_DISPATCHER && m->state == AS_CTL_READY_STATE && oldest(o))
        as_reconciler_send_confirm(o->reconciler, o->last);
    if (m->type != AS_CTL_CONFIRMED)
        return;
    while ((w = oldest(o)) && w->id <= m->id)
        answer(w);
    set_timer(o);
}
