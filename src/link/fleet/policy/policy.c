#include "link/fleet/policy/policy.h"

#include "link/fleet/policy/policy_internal.h"
#include "wire/frame/body.h"

#define BODY_PART (256u << 10) /* bytes of a body that are sent at once */

/* --- questions --- */

static void count(struct as_policy *p, enum as_policy_outcome o)
{
    p->deploy->router_outcomes[o]++;
}

static struct as_call **slot_of(struct as_policy *p, uint64_t id)
{
    return &p->open[id & (AS_POLICY_OPEN - 1)];
}

static struct as_call *find_open(struct as_policy *p, uint64_t id)
{
    struct as_call *c = *slot_of(p, id);

    return c && c->question == id ? c : NULL;
}

static void close_question(struct as_policy *p, struct as_call *c, enum as_policy_outcome o)
{
    *slot_of(p, c->question) = NULL;
    p->n_open--;
    c->question_open = false;
    count(p, o);
}

/* The bytes that the router sees. A body that is still to be laid out is not shown. */
static struct as_str shown_body(const struct as_payload *p)
{
    bool shown = p->kind == AS_FRAME_HTTP || (p->kind == AS_FRAME_CALL && !p->pieces);

    return shown ? p->body : AS_STR("");
}

/* What the router sees of the request. */
static void describe(const struct as_fleet_deployment *d, const struct as_call *c,
                     struct as_policy_route *r)
{
    const struct as_payload *p = &c->payload;
    struct as_route_ids ids = as_fleet_find_ids(d, p);
    bool is_http = p->kind == AS_FRAME_HTTP;

    r->kind = (uint8_t)(p->kind ? p->kind : AS_FRAME_TENSOR);
    r->request_id = as_policy_within(is_http ? p->http->id : p->msg.id, AS_POLICY_TEXT);
    if (p->kind == AS_FRAME_CALL)
        r->method = as_policy_within(p->pieces ? p->pieces->method
                                               : as_body_method((const uint8_t *)p->body.p),
                                     AS_POLICY_TEXT);
    r->model_id = as_policy_within(ids.model, AS_POLICY_TEXT);
    r->session_id = as_policy_within(ids.session, AS_POLICY_TEXT);
    r->body = shown_body(p);
    r->body_len = r->body.n;
    r->body.n = AS_MIN(r->body.n, (size_t)AS_POLICY_BODY_FIRST);
}

bool as_policy_ask(struct as_fleet_deployment *d, struct as_call *c)
{
    struct as_policy_route r = {.created = c->core.arrived};
    struct as_policy *p = d->policy;

    if (!p || !p->up) {
        d->router_outcomes[AS_POLICY_OUTCOME_ABSENT]++;
        return false;
    }
    if (p->n_open == AS_POLICY_OPEN || as_policy_is_over(p)) {
        count(p, AS_POLICY_OUTCOME_BUSY);
        return false;
    }
    while (*slot_of(p, p->next_id)) /* an old question is still open */
        p->next_id++;
    as_policy_walk_replicas(p);
    r.before = c->question;
    r.id = c->question = p->next_id++;
    c->question_open = true;
    c->asked_at = as_loop_now(d->fleet->loop);
    *slot_of(p, r.id) = c;
    p->n_open++;
    describe(d, c, &r);
    as_policy_put_route(as_policy_room(p, AS_POLICY_BODY_FIRST + 8 * AS_POLICY_TEXT), &r);
    return true;
}

void as_policy_unask(struct as_fleet_deployment *d, struct as_call *c)
{
    const struct as_router_conf *conf = &d->fleet->conf.deployment.router;
    struct as_policy *p = d->policy;
    bool late;

    if (!c->question_open || !p)
        return;
    late = as_loop_now(d->fleet->loop) >= c->asked_at + conf->ask_timeout;
    close_question(p, c, late ? AS_POLICY_OUTCOME_LATE : AS_POLICY_OUTCOME_LEFT);
    if (p->up && !late) /* one that is late may still be told where it went */
        as_policy_put_news(p, AS_POLICY_WITHDRAWN, c->question, 0);
}

void as_policy_note_sent(struct as_fleet_deployment *d, const struct as_call *c)
{
    struct as_policy *p = d->policy;

    if (p && p->up && c->question && p->wants & AS_POLICY_WANTS_ROUTED && !as_policy_is_over(p))
        as_policy_put_news(p, AS_POLICY_ROUTED, c->question, c->routed_to);
}

void as_policy_note_ended(struct as_fleet_deployment *d, struct as_call *c)
{
    struct as_policy *p = d->policy;

    if (p && p->up && c->question && c->routed_to && p->wants & AS_POLICY_WANTS_COMPLETED &&
        as_policy_find_known(p, c->routed_to) && !as_policy_is_over(p))
        as_policy_put_news(p, AS_POLICY_COMPLETED, c->question, c->routed_to);
    c->routed_to = 0;
}

/* --- bodies --- */

/* Sends more of the bodies that were asked for. */
static void send_bodies(struct as_policy *p)
{
    while (p->n_more && !as_policy_is_over(p)) {
        struct as_policy_more *m = &p->more[0];
        struct as_call *c = find_open(p, m->id);
        struct as_policy_body b = {.id = m->id, .offset = m->at};
        bool last = true;

        if (c) {
            struct as_str body = shown_body(&c->payload);

            /* it may ask for more than there is */
            b.offset = m->at = AS_MIN(m->at, body.n);
            b.bytes = (struct as_str){body.p + m->at, AS_MIN(body.n - m->at, (size_t)BODY_PART)};
            m->at += b.bytes.n;
            last = m->at == body.n;
        } else {
            b.flags = AS_POLICY_BODY_F_GONE;
        }
        as_policy_put_body(as_policy_room(p, 64 + BODY_PART), &b);
        if (last)
            memmove(m, m + 1, --p->n_more * sizeof(*m));
    }
}

static void on_more(struct as_policy *p, uint64_t id)
{
    if (p->n_more == AS_POLICY_OPEN) /* more than there are questions */
        return;
    if (p->n_more == p->cap_more) {
        p->cap_more = AS_MAX(2 * p->cap_more, 4u);
        p->more = as_xrealloc(p->more, p->cap_more * sizeof(*p->more));
    }
    p->more[p->n_more++] = (struct as_policy_more){id, AS_POLICY_BODY_FIRST};
    as_loop_defer(p->deploy->fleet->loop, &p->flush);
}

static void on_flush(struct as_task *t)
{
    struct as_policy *p = AS_CONTAINER(t, struct as_policy, flush);

    p->walked = false;
    if (!p->up)
        return;
    send_bodies(p);
    as_policy_send_out(p);
    as_task_cancel(t);
}

/* --- the process --- */

static void answer(struct as_policy *p, struct as_call *c, const struct as_router_choice *choice)
{
    as_deployment_routed(p->deploy->core, &c->core, choice, as_loop_now(p->deploy->fleet->loop));
}

/* The open questions get no answer from that process. */
static void lose_questions(struct as_policy *p)
{
    const struct as_router_choice none = {0};

    for (uint32_t i = 0; i < AS_POLICY_OPEN && p->n_open; i++) {
        struct as_call *c = p->open[i];

        if (!c)
            continue;
        close_question(p, c, AS_POLICY_OUTCOME_LOST);
        answer(p, c, &none);
    }
}

/* The process is asked no more. It may be asked again, so it is to forget the replicas. */
static void detach(struct as_policy *p)
{
    bool is_there = !p->up->has_ended;

    if (!is_there)
        p->out.n = 0;
    while (p->n_known)
        as_policy_forget_known(p, &p->known[p->n_known - 1], false);
    if (is_there)
        as_policy_send_out(p);
    p->up = NULL;
    as_task_cancel(&p->flush);
    p->out.n = 0;
    p->n_more = 0;
    p->walked = false;
}

static void attach(struct as_policy *p, struct as_upstream *u)
{
    if (p->up) {
        detach(p);
        lose_questions(p);
    }
    p->up = u;
    p->wants = u->policy_wants;
    as_log_event(u->fleet->log, AS_LOG_INFO, "policy_process", "deployment=%s replica=%s",
                 as_id_shown_z(p->deploy->name), as_id_shown_z(u->name));
    as_policy_walk_replicas(p);
}

/* From now on the deployment's requests are put to the router, or not any more. */
static void update_router(struct as_fleet_deployment *d)
{
    struct as_router_conf conf = as_fleet_router_conf(d);

    if (d->core)
        AS_ASSERT(as_deployment_set_router(d->core, &conf, as_loop_now(d->fleet->loop)) == 0);
}

static struct as_policy *ensure_policy(struct as_fleet_deployment *d)
{
    struct as_policy *p = d->policy;

    if (p)
        return p;
    p = as_xalloc(sizeof(*p));
    p->deploy = d;
    p->next_id = ((uint64_t)++d->fleet->policies << 32) + 1; /* not used again by others */
    as_task_init(&p->flush, on_flush);
    d->policy = p;
    update_router(d);
    return p;
}

void as_policy_remove(struct as_fleet_deployment *d)
{
    struct as_policy *p = d->policy;

    if (!p)
        return;
    if (p->up) {
        detach(p);
        lose_questions(p);
    }
    d->policy = NULL;
    update_router(d);
    as_policy_free(p);
}

void as_policy_free(struct as_policy *p)
{
    if (!p)
        return;
    if (p->up)
        detach(p);
    as_task_cancel(&p->flush);
    as_buf_fini(&p->out);
    free(p->known);
    free(p->more);
    free(p);
}

/* The id of the deployment for which u would choose; empty: it is no policy process of ours. */
static struct as_str base_of(const struct as_upstream *u)
{
    return u->deploy && u->process ? as_id_policy_base(as_str_of(u->deploy->name)) : AS_STR("");
}

/* That deployment; NULL: it is not known here. */
static struct as_fleet_deployment *served_by(const struct as_upstream *u)
{
    struct as_str base = base_of(u);

    return base.n ? as_fleet_find_deployment(u->fleet, base) : NULL;
}

/* A process of d that is ready; NULL: there is none. */
static struct as_upstream *find_process(const struct as_fleet_deployment *d)
{
    AS_LIST_EACH_ENTRY(u, struct as_upstream, node, &d->fleet->upstreams) {
        if (u->policy_ready && !u->has_ended && as_str_eq(base_of(u), as_str_of(d->name)))
            return u;
    }
    return NULL;
}

void as_policy_begin(struct as_fleet_deployment *d)
{
    struct as_upstream *u = find_process(d);

    if (u)
        attach(ensure_policy(d), u);
}

void as_policy_on_upstream_end(struct as_upstream *u, bool died)
{
    struct as_fleet_deployment *d = served_by(u);
    struct as_upstream *next;
    struct as_policy *p = u->deploy ? u->deploy->policy : NULL;
    struct as_policy_known *k =
        p && u->policy_number ? as_policy_find_known(p, u->policy_number) : NULL;

    u->has_ended = true;
    if (k && p->up)
        as_policy_forget_known(p, k, died);
    if (!d || !d->policy || d->policy->up != u)
        return;
    detach(d->policy);
    lose_questions(d->policy);
    if ((next = find_process(d)))
        attach(d->policy, next);
}

/* --- its records --- */

static const char *on_choice(struct as_policy *p, struct as_str body)
{
    struct as_router_choice choice = {0};
    struct as_policy_choice said;
    struct as_call *c;

    if (as_policy_get_choice(body, &said))
        return "malformed CHOICE";
    c = find_open(p, said.id);
    if (!c)
        return NULL; /* its time has passed */
    for (uint32_t i = 0; i < said.n; i++) {
        struct as_policy_known *k = as_policy_find_known(p, said.at[i].number);

        if (!k) /* it has ended meanwhile */
            continue;
        choice.of[choice.n].replica = k->up->replica;
        choice.of[choice.n++].rank = said.at[i].rank;
    }
    static_assert(AS_POLICY_OUTCOME_CHOSEN == (int)AS_POLICY_CHOSEN &&
                      AS_POLICY_OUTCOME_BUSY == (int)AS_POLICY_BUSY,
                  "the same order");
    close_question(p, c,
                   said.n && !choice.n ? AS_POLICY_OUTCOME_UNKNOWN
                                       : (enum as_policy_outcome)said.reason);
    answer(p, c, &choice);
    return NULL;
}

static const char *on_ready(struct as_upstream *u, struct as_fleet_deployment *d,
                            struct as_str body)
{
    struct as_policy_ready r;

    if (as_policy_get_ready(body, &r) || u->policy_ready)
        return "malformed or second READY";
    u->policy_ready = true;
    u->policy_wants = r.wants;
    if (d)
        attach(ensure_policy(d), u);
    return NULL;
}

/* p: NULL if u is not asked now. */
static const char *on_event(struct as_upstream *u, struct as_policy *p,
                            const struct as_policy_record *r)
{
    struct as_policy_event e;

    if (as_policy_get_event(r->body, &e))
        return "a malformed record of POLICY";
    if (r->kind == AS_POLICY_READ) {
        if (e.id < u->policy_read || e.id > u->policy_sent)
            return "READ of bytes that were not sent";
        u->policy_read = e.id;
        if (p && p->n_more)
            as_loop_defer(p->deploy->fleet->loop, &p->flush);
    } else if (p) {
        on_more(p, e.id);
    }
    return NULL;
}

const char *as_policy_on_frame(struct as_upstream *u, const struct as_frame *f)
{
    struct as_fleet_deployment *d = served_by(u);
    struct as_str rest = {(const char *)f->p, f->n};
    struct as_policy_record r;
    const char *why = NULL;
    int got = 0;

    if (!base_of(u).n)
        return "POLICY from a worker that is no policy process";
    while (!why && !u->has_ended && (got = as_policy_next(&rest, &r)) > 0) {
        struct as_policy *p = d && d->policy && d->policy->up == u ? d->policy : NULL;

        if (r.kind == AS_POLICY_READY)
            why = on_ready(u, d, r.body);
        else if (r.kind == AS_POLICY_CHOICE && p)
            why = on_choice(p, r.body);
        else if (r.kind == AS_POLICY_MORE || r.kind == AS_POLICY_READ)
            why = on_event(u, p, &r);
    }
    return why ? why : got < 0 ? "malformed POLICY" : NULL;
}
