/* A call of every replica of a deployment (AS_CALL_F_EVERY): one call to each that is in rotation
 * now, beyond its slots. Each answer is a message with the replica's name; a failure is the body of
 * an exception. Answers wait here until the caller has granted them: at most one for each replica.
 *
 * The fleet has the single calls, never the whole; they refer to the whole's bytes, so it is freed
 * after them.
 */
#include "base/err.h"
#include "base/memory/slab.h"
#include "link/native/caller.h"
#include "link/native/link.h"
#include "wire/frame/body.h"

#include <string.h>

#define REPLICA_HEADER "anyserve-replica"

/* One of the single calls. */
struct single {
    struct as_call call;
    struct as_arena arena;
    struct as_caller_call *whole;
    struct as_list node;   /* of all that are not freed */
    struct as_list waits;  /* in the list of answers that wait for credit */
    struct as_str replica; /* its name */
    struct as_blob *blob;  /* of the answer that waits … */
    struct as_str body;    /* … and its body */
    bool answered, released;
    uint8_t first[AS_CALLER_FIRST] __attribute__((aligned(16)));
};

struct as_caller_every {
    struct as_list singles, waiting;
    uint32_t unanswered; /* and one more while they are submitted */
};

static void free_single(struct single *s)
{
    as_list_remove(&s->node);
    as_list_remove(&s->waits);
    as_blob_unref(s->blob);
    as_arena_fini(&s->arena);
    as_slab_put(s);
}

/* Frees what nobody needs: singles that are released and whose answer was sent; then the whole. */
static void reap(struct as_caller_call *c)
{
    struct as_caller_every *e = c->every;

    AS_LIST_EACH_ENTRY(s, struct single, node, &e->singles) {
        if (s->released && as_list_empty(&s->waits))
            free_single(s);
    }
    if (c->link || e->unanswered || !as_list_empty(&e->singles))
        return;
    free(e);
    as_caller_free(c);
}

/* Sends what credit allows, and END after the last answer. */
static void send_answers(struct as_caller_call *c)
{
    struct as_caller_every *e = c->every;
    struct as_link *l = c->link;

    while (l && !as_list_empty(&e->waiting) && as_frame_window_is_open(&c->credit)) {
        struct single *s = AS_LIST_ENTRY(e->waiting.next, struct single, waits);
        struct as_meta replica = {AS_STR(REPLICA_HEADER), s->replica};
        struct as_frame_call m = {.more = true,
                                  .meta = &replica,
                                  .n_meta = 1,
                                  .body_len = s->body.n,
                                  .body = (const uint8_t *)s->body.p};
        int err;

        as_frame_window_consume(&c->credit, as_frame_call_cost(&m, NULL));
        err = as_frame_put_call(&l->out, AS_FRAME_DATA, c->number, &m, NULL, s->blob);
        AS_ASSERT(!err);
        as_list_remove(&s->waits);
        as_link_schedule_flush(l);
    }
    if (l && !e->unanswered && as_list_empty(&e->waiting)) {
        as_frame_put_end(&l->out, c->number, 0);
        as_caller_detach(c);
        as_link_schedule_flush(l);
    }
    reap(c);
}

/* The body of an exception, in the single's arena. False: out of memory. */
static bool describe_failure(struct single *s)
{
    const struct as_outcome *o = &s->call.outcome;
    struct as_body b = {.codec = AS_BODY_BYTES,
                        .flags = AS_BODY_F_EXCEPTION,
                        .data = o->message.n ? o->message : as_str_of(as_err_text(o->err))};
    size_t n = (size_t)as_body_len(&b);
    uint8_t *p = as_arena_alloc(&s->arena, n, 8);

    if (!p)
        return false;
    as_body_write(&b, p);
    s->body = (struct as_str){(const char *)p, n};
    return true;
}

/* Keeps the answer's bytes, which may lie in a read buffer. False: out of memory. */
static bool keep_result(struct single *s)
{
    struct as_str body = s->call.outcome.result.body;
    const uint8_t *p = (const uint8_t *)body.p;
    int err;

    s->blob = s->call.outcome.result.blob;
    s->call.outcome.result.blob = NULL;
    if (!s->blob)
        p = as_call_copy_answer(&s->call, body.p, body.n, &s->blob, &err);
    s->body = (struct as_str){(const char *)p, p ? body.n : 0};
    return p != NULL;
}

static void on_answer(struct as_call *call)
{
    struct single *s = AS_CONTAINER(call, struct single, call);
    struct as_caller_call *c = s->whole;
    bool kept = call->outcome.err ? describe_failure(s) : keep_result(s);

    s->answered = true;
    c->every->unanswered--;
    if (!kept && c->link)
        as_log_event(c->link->up.fleet->log, AS_LOG_WARN, "answer_dropped",
                     "replica=%.*s reason=\"out of memory\"", AS_STR_FMT(s->replica));
    if (kept && c->link)
        as_list_push(&c->every->waiting, &s->waits);
    send_answers(c);
}

static void on_release(struct as_call *call)
{
    struct single *s = AS_CONTAINER(call, struct single, call);
    struct as_caller_call *c = s->whole;

    if (!s->answered) /* it was cancelled */
        c->every->unanswered--;
    s->answered = s->released = true;
    reap(c);
}

/* --- submitting --- */

struct replicas {
    struct as_replica **at;
    uint32_t n, cap, model;
};

static void collect(void *arg, struct as_replica *r)
{
    struct replicas *all = arg;

    if (!as_replica_is_in_rotation(r, all->model))
        return;
    if (all->n == all->cap) {
        all->cap = AS_MAX(2 * all->cap, 16u);
        all->at = as_xrealloc(all->at, all->cap * sizeof(struct as_replica *));
    }
    all->at[all->n++] = r;
}

static struct single *new_single(struct as_caller_call *c, struct as_replica *r,
                                 const struct as_fleet_deployment *d,
                                 const struct as_fleet_model *m)
{
    struct single *s = as_slab_get(sizeof(*s));
    const char *name = as_upstream_of(r)->name;

    if (!s)
        return NULL;
    memset(s, 0, offsetof(struct single, first));
    as_arena_init(&s->arena, s->first, sizeof(s->first));
    as_list_init(&s->waits);
    s->whole = c;
    s->replica = as_arena_xdup(&s->arena, as_id_name(as_str_of(name ? name : "")));
    as_request_init(&s->call.core);
    s->call.core.priority = c->call.core.priority;
    s->call.core.tenant = c->call.core.tenant;
    s->call.core.deadline = c->call.core.deadline;
    s->call.core.root = c->call.core.root;
    s->call.caller = c->call.caller;
    s->call.owner = c->call.owner;
    s->call.depth = c->call.depth;
    s->call.payload = c->call.payload; /* the bytes are c's */
    s->call.payload.call_flags = 0;
    s->call.arena = &s->arena;
    s->call.payer = c->call.payer; /* c lives longer */
    s->call.on_answer = on_answer;
    s->call.on_release = on_release;
    s->call.deployment = d->number;
    s->call.core.model = m->index;
    s->call.core.idempotent = m->idempotent;
    s->call.only = r;
    as_list_push(&c->every->singles, &s->node);
    c->every->unanswered++;
    return s;
}

void as_caller_submit_every(struct as_caller_call *c, struct as_fleet_deployment *d,
                            const struct as_fleet_model *m)
{
    struct as_fleet *f = c->link->up.fleet;
    struct replicas all = {.model = AS_FLEET_MODEL_PLACE(m->index)};
    struct single *s;

    if (as_fleet_flag(&d->down)) {
        as_caller_fail_described(c, AS_EUNAVAILABLE,
                                 " is unavailable because it failed to deploy.");
        as_caller_free(c);
        return;
    }
    c->every = as_xalloc(sizeof(*c->every));
    as_list_init(&c->every->singles);
    as_list_init(&c->every->waiting);
    c->every->unanswered = 1;
    if (d->core)
        as_deployment_each_replica(d->core, collect, &all);
    for (uint32_t i = 0; i < all.n; i++) {
        s = new_single(c, all.at[i], d, m);
        if (s)
            as_fleet_client_submit(&f->callers, &s->call);
    }
    free(all.at);
    c->every->unanswered--;
    send_answers(c);
}

void as_caller_every_credited(struct as_caller_call *c)
{
    send_answers(c);
}

void as_caller_every_cancel(struct as_caller_call *c)
{
    struct as_caller_every *e = c->every;
    struct single *found;

    e->unanswered++; /* c stays until all are cancelled */
    AS_LIST_EACH_ENTRY(w, struct single, waits, &e->waiting) {
        as_list_remove(&w->waits);
    }
    do { /* a cancel may free others */
        found = NULL;
        AS_LIST_EACH_ENTRY(s, struct single, node, &e->singles) {
            if (!s->answered && !s->call.cancel_posted && !found)
                found = s;
        }
        if (found) {
            found->call.cancel_posted = true; /* for this loop: a local cancel does not set it */
            as_fleet_client_cancel(found->call.client, &found->call);
        }
    } while (found);
    e->unanswered--;
    reap(c);
}
