#include "edge/admin/control.h"

#include "base/digest/sha256.h"
#include "edge/exchange/dispatch_query.h"
#include "edge/exchange/offload.h"

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
    else if (err == AS_ESTALE && text)
        as_rest_json(x, as_err_http(err), text);
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

struct change { /* what the query and If-Match say */
    bool dry;
    uint64_t generation;
};

static bool read_dry_run(struct as_str value, bool *ret_dry)
{
    *ret_dry = as_str_eq(value, AS_STR("1")) || as_str_eq(value, AS_STR("true"));
    return *ret_dry || as_str_eq(value, AS_STR("0")) || as_str_eq(value, AS_STR("false"));
}

/* `N` or `"N"`. */
static bool read_generation(struct as_str value, uint64_t *ret_n)
{
    if (value.n > 2 && value.p[0] == '"' && value.p[value.n - 1] == '"')
        value = (struct as_str){value.p + 1, value.n - 2};
    return as_str_u64(value, ret_n) == 0 && *ret_n != AS_CONTROL_ANY;
}

/* An unknown query is refused (false): a typo must not deploy. */
static bool read_change(struct as_exchange *x, struct as_str query, struct change *ret_c)
{
    struct as_str tag = as_http_head_find(x->head, AS_STR("if-match")), rest = query;

    *ret_c = (struct change){.generation = AS_CONTROL_ANY};
    if (tag.n && !read_generation(tag, &ret_c->generation)) {
        as_exchange_fail(x, AS_EINVALID, "If-Match '%.*s': it must be the number of a generation",
                         AS_STR_CUT(tag, 64));
        return false;
    }
    while (rest.n) {
        struct as_str value = as_str_split(&rest, '&'), key = as_str_split(&value, '=');

        if (as_str_eq(key, AS_STR("dry_run"))      ? !read_dry_run(value, &ret_c->dry)
            : as_str_eq(key, AS_STR("generation")) ? !read_generation(value, &ret_c->generation)
                                                   : true) {
            as_exchange_fail(x, AS_EINVALID,
                             "query '%.*s': only dry_run=true or false, and generation=N are known",
                             AS_STR_CUT(query, 64));
            return false;
        }
    }
    return true;
}

void as_control_deploy(struct as_exchange *x, const struct as_rest_match *m)
{
    struct change c;

    if (read_change(x, m->query, &c))
        handle_request(
            x, &(struct as_control_request){.verb = c.dry ? AS_CONTROL_PLAN : AS_CONTROL_DEPLOY,
                                            .generation = c.generation,
                                            .text = body_of(x)});
}

void as_control_deploy_one(struct as_exchange *x, const struct as_rest_match *m)
{
    struct change c;

    if (read_change(x, m->query, &c))
        handle_request(x, &(struct as_control_request){.verb = c.dry ? AS_CONTROL_PLAN_ONE
                                                                     : AS_CONTROL_DEPLOY_ONE,
                                                       .application = m->application,
                                                       .generation = c.generation,
                                                       .text = body_of(x)});
}

void as_control_delete(struct as_exchange *x, const struct as_rest_match *m)
{
    struct change c;

    if (!read_change(x, m->query, &c))
        return;
    if (c.dry)
        as_exchange_fail(x, AS_EINVALID, "a DELETE takes no dry_run");
    else
        handle_request(x, &(struct as_control_request){.verb = AS_CONTROL_DELETE,
                                                       .application = m->application,
                                                       .generation = c.generation});
}

/* --- pickled code --- */

struct upload { /* in the exchange's arena */
    struct as_offload offload;
    char name[AS_SHA256_HEX];
    char why[512]; /* not on the heap: nothing is called at the end when the client has gone */
    size_t n_why;
    int rc;
};

/* On the helper: the hash of 64 MB takes a fifth of a second, and a disk may take longer. */
static void store_pickle(struct as_offload *a)
{
    struct upload *u = AS_CONTAINER(a, struct upload, offload);
    const struct as_control *c = a->x->edge->conf.api;
    struct as_buf err = {0};

    u->rc = c->store_pickle(c->ctx, (struct as_str){u->name, sizeof(u->name)}, body_of(a->x), &err);
    u->n_why = AS_MIN(err.n, sizeof(u->why));
    if (u->n_why)
        memcpy(u->why, err.p, u->n_why);
    as_buf_fini(&err);
}

static void on_stored(struct as_offload *a)
{
    struct upload *u = AS_CONTAINER(a, struct upload, offload);
    struct as_buf json = {0};

    if (u->rc < 0) {
        as_rest_fail(a->x, as_err_http(u->rc), (struct as_str){u->why, u->n_why}, NULL, 0);
        return;
    }
    as_buf_printf(&json, "{\"code\":\"pickle:%.*s\"}", (int)sizeof(u->name), u->name);
    as_rest_json(a->x, 200, &json);
    as_buf_fini(&json);
}

/* Whoever may upload code has the server run it as its user, so a token by TCP is not enough. */
void as_control_upload(struct as_exchange *x, const struct as_rest_match *m)
{
    const struct as_control *c = x->edge->conf.api;
    struct upload *u;

    if (!x->conn->trusted) {
        as_exchange_fail(x, AS_EDENIED, "pickled code is only accepted by the unix socket");
    } else if (!as_sha256_is_hex(m->name)) {
        as_exchange_fail(x, AS_EINVALID,
                         "'%.*s' is no SHA-256: 64 lower-case hex digits are expected",
                         AS_STR_CUT(m->name, 80));
    } else if (!x->body.len) {
        as_exchange_fail(x, AS_EINVALID, "the body, which is the pickled code, is missing");
    } else if ((u = as_exchange_alloc(x, sizeof(*u), _Alignof(struct upload), "the upload"))) {
        *u = (struct upload){.offload = {.x = x, .work = store_pickle, .done = on_stored}};
        memcpy(u->name, m->name.p, sizeof(u->name));
        c->expect_pickle(c->ctx, m->name);
        x->state = AS_EXCHANGE_WAITING;
        as_offload_start(&u->offload);
    }
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
