#include "edge/admin/control.h"

#include "edge/exchange/dispatch_query.h"

#define REPLICAS_KEY "target_num_replicas"

struct as_control_call {
    struct as_dispatch_query query; /* must be first: x->pending.query points to it */
    bool yaml;                      /* the answer is YAML */
    void (*gone)(void *arg);
    void *arg;
};

static void on_gone(struct as_dispatch_query *query)
{
    struct as_control_call *k = AS_CONTAINER(query, struct as_control_call, query);

    if (k->gone)
        k->gone(k->arg);
}

void as_control_set_on_gone(struct as_control_call *k, void (*gone)(void *arg), void *arg)
{
    k->gone = gone;
    k->arg = arg;
}

void as_control_answer(struct as_control_call *k, int err, const struct as_buf *text)
{
    struct as_exchange *x = k->query.x;
    bool yaml = k->yaml;

    free(k);
    if (!x)
        return;
    x->pending.query = NULL;
    if (!err && yaml)
        as_rest_text(x, 200, AS_STR("application/yaml"), text);
    else if (!err)
        as_rest_json(x, 200, text);
    else if (text && text->n)
        as_rest_fail(x, as_err_http(err), as_buf_slice(text), NULL, 0);
    else
        as_exchange_fail(x, err, "%s", as_err_text(err));
}

static void handle_request(struct as_exchange *x, const struct as_control_request *q)
{
    const struct as_control *c = x->edge->conf.api;
    struct as_control_call *k = as_xalloc(sizeof(*k));

    k->query.x = x;
    k->query.gone = on_gone;
    k->yaml = q->verb == AS_CONTROL_CONFIG;
    x->pending.query = &k->query;
    x->state = AS_EXCHANGE_WAITING;
    c->handle(c->ctx, q, k);
}

static struct as_str body_of(const struct as_exchange *x)
{
    return (struct as_str){x->body.len ? (const char *)x->body.p : "", x->body.len};
}

void as_control_show(struct as_exchange *x, const struct as_rest_match *m AS_UNUSED)
{
    handle_request(x, &(struct as_control_request){.verb = AS_CONTROL_SHOW});
}

void as_control_config(struct as_exchange *x, const struct as_rest_match *m AS_UNUSED)
{
    handle_request(x, &(struct as_control_request){.verb = AS_CONTROL_CONFIG});
}

void as_control_history(struct as_exchange *x, const struct as_rest_match *m AS_UNUSED)
{
    handle_request(x, &(struct as_control_request){.verb = AS_CONTROL_HISTORY});
}

/* Parses the query. An unknown one is refused (false): a typo must not deploy. */
static bool read_dry_run(struct as_exchange *x, struct as_str query, bool *ret_dry)
{
    *ret_dry = as_str_eq(query, AS_STR("dry_run=1")) || as_str_eq(query, AS_STR("dry_run=true"));
    if (*ret_dry || !query.n || as_str_eq(query, AS_STR("dry_run=0")) ||
        as_str_eq(query, AS_STR("dry_run=false")))
        return true;
    as_exchange_fail(x, AS_EINVALID, "query '%.*s': only dry_run=true or false is known",
                     AS_STR_CUT(query, 64));
    return false;
}

void as_control_deploy(struct as_exchange *x, const struct as_rest_match *m)
{
    bool dry;

    if (read_dry_run(x, m->query, &dry))
        handle_request(
            x, &(struct as_control_request){.verb = dry ? AS_CONTROL_PLAN : AS_CONTROL_DEPLOY,
                                            .text = body_of(x)});
}

void as_control_delete(struct as_exchange *x, const struct as_rest_match *m)
{
    handle_request(
        x, &(struct as_control_request){.verb = AS_CONTROL_DELETE, .application = m->application});
}

/* --- one deployment --- */

struct scale {
    uint64_t n;
    bool found;
};

/* target_num_replicas: a number, or null for num_replicas of the deployment. Nothing else. */
static int read_scale(struct as_json *j, struct as_json_items *it, void *ctx)
{
    struct scale *s = ctx;
    int err;

    if (s->found || !as_str_eq(it->key, AS_STR(REPLICAS_KEY)))
        return AS_EINVALID;
    s->found = true;
    if (it->value.type == AS_JSON_NULL) {
        s->n = AS_CONTROL_NONE;
        return as_json_skip(j, &it->value);
    }
    err = as_json_u64(j, &it->value, &s->n);
    return err ? err : s->n > AS_PLAN_REPLICAS_MAX ? AS_EINVALID : 0;
}

void as_control_scale(struct as_exchange *x, const struct as_rest_match *m)
{
    struct scale s = {0};
    struct as_json_list members = {.each = read_scale, .ctx = &s};
    char wrong[96];

    snprintf(wrong, sizeof(wrong),
             "the body must be {\"" REPLICAS_KEY "\": N} with N from 0 to %u, and nothing else",
             AS_PLAN_REPLICAS_MAX);
    if (!as_rest_read_json(x, AS_JSON_FIELD_MAP, &members, wrong))
        return;
    if (!x->body.len)
        as_exchange_fail(x, AS_EINVALID, "the body {\"" REPLICAS_KEY "\": N} is missing");
    else if (!s.found)
        as_exchange_fail(x, AS_EINVALID, "%s", wrong);
    else
        handle_request(x, &(struct as_control_request){.verb = AS_CONTROL_SCALE,
                                                       .application = m->application,
                                                       .deployment = m->deployment,
                                                       .replicas = (uint32_t)s.n});
}

static void handle_deployment_request(struct as_exchange *x, const struct as_rest_match *m,
                                      enum as_control_verb verb)
{
    handle_request(x, &(struct as_control_request){.verb = verb,
                                                   .application = m->application,
                                                   .deployment = m->deployment});
}

void as_control_restart(struct as_exchange *x, const struct as_rest_match *m)
{
    handle_deployment_request(x, m, AS_CONTROL_RESTART);
}

void as_control_rollback(struct as_exchange *x, const struct as_rest_match *m)
{
    handle_deployment_request(x, m, AS_CONTROL_ROLLBACK);
}
