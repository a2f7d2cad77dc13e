#include "wire/frame/frame_policy.h"

#include "base/buf.h"
#include "base/err.h"
#include "wire/frame/frame_le.h"

#include <string.h>

/* Fixed parts of the records. */
#define REPLICA 32u
#define COUNT   8u
#define ROUTE   48u
#define BODY    24u
#define EVENT   16u
#define READY   8u
#define CHOICE  16u
#define CHOSEN  8u

#define F_MODELS 0x1u
#define F_STATS  0x2u

/* --- writing --- */

/* Reserves a record with n bytes of body, whose padding is zero; returns the body. */
static uint8_t *put_record(struct as_buf *b, enum as_policy_kind kind, size_t n)
{
    size_t total = AS_POLICY_RECORD + AS_ALIGN(n, (size_t)8);
    uint8_t *p = as_buf_reserve(b, total);

    memset(p, 0, AS_POLICY_RECORD);
    memset(p + total - 8, 0, 8);
    put32(p, (uint32_t)kind);
    put32(p + 4, (uint32_t)n);
    b->n += total;
    return p + AS_POLICY_RECORD;
}

static uint8_t *put_text(uint8_t *p, struct as_str s)
{
    if (s.n)
        memcpy(p, s.p, s.n);
    return p + s.n;
}

void as_policy_put_replica(struct as_buf *b, const struct as_policy_replica *r)
{
    size_t models = r->has_models ? r->models.n : 0, stats = r->has_stats ? r->stats.n : 0;
    uint8_t *p;

    AS_ASSERT(r->name.n && r->name.n <= AS_POLICY_NAME && r->node.n <= AS_POLICY_NAME &&
              r->zone.n <= AS_POLICY_NAME && models <= AS_POLICY_FACTS && stats <= AS_POLICY_FACTS);
    p = put_record(b, AS_POLICY_REPLICA,
                   REPLICA + r->name.n + r->node.n + r->zone.n + models + stats);
    put32(p, r->number);
    put32(p + 4, r->max_ongoing);
    put32(p + 8, r->ongoing);
    put16(p + 12, (uint16_t)r->name.n);
    put16(p + 14, (uint16_t)r->node.n);
    put16(p + 16, (uint16_t)r->zone.n);
    put16(p + 18, (uint16_t)((r->has_models ? F_MODELS : 0) | (r->has_stats ? F_STATS : 0)));
    put32(p + 20, (uint32_t)models);
    put32(p + 24, (uint32_t)stats);
    put32(p + 28, 0);
    p = put_text(p + REPLICA, r->name);
    p = put_text(p, r->node);
    p = put_text(p, r->zone);
    p = put_text(p, (struct as_str){r->models.p, models});
    put_text(p, (struct as_str){r->stats.p, stats});
}

void as_policy_put_ongoing(struct as_buf *b, const struct as_policy_count *at, uint32_t n)
{
    uint8_t *p;

    AS_ASSERT(n && n <= AS_POLICY_COUNTS);
    p = put_record(b, AS_POLICY_ONGOING, (size_t)n * COUNT);
    for (uint32_t i = 0; i < n; i++, p += COUNT) {
        put32(p, at[i].number);
        put32(p + 4, at[i].ongoing);
    }
}

void as_policy_put_route(struct as_buf *b, const struct as_policy_route *r)
{
    size_t texts = r->method.n + r->model_id.n + r->session_id.n + r->request_id.n;
    uint8_t *p;

    AS_ASSERT(r->method.n <= AS_POLICY_TEXT && r->model_id.n <= AS_POLICY_TEXT &&
              r->session_id.n <= AS_POLICY_TEXT && r->request_id.n <= AS_POLICY_TEXT &&
              r->body.n <= AS_POLICY_BODY_FIRST && r->body.n <= r->body_len);
    p = put_record(b, AS_POLICY_ROUTE, ROUTE + texts + r->body.n);
    put64(p, r->id);
    put64(p + 8, r->created);
    put64(p + 16, r->body_len);
    put32(p + 24, (uint32_t)r->body.n);
    put32(p + 28, r->kind);
    put16(p + 32, (uint16_t)r->method.n);
    put16(p + 34, (uint16_t)r->model_id.n);
    put16(p + 36, (uint16_t)r->session_id.n);
    put16(p + 38, (uint16_t)r->request_id.n);
    put64(p + 40, r->before);
    p = put_text(p + ROUTE, r->method);
    p = put_text(p, r->model_id);
    p = put_text(p, r->session_id);
    p = put_text(p, r->request_id);
    put_text(p, r->body);
}

void as_policy_put_body(struct as_buf *b, const struct as_policy_body *body)
{
    uint8_t *p;

    AS_ASSERT(body->bytes.n <= AS_POLICY_BODY_PART);
    p = put_record(b, AS_POLICY_BODY, BODY + body->bytes.n);
    put64(p, body->id);
    put64(p + 8, body->offset);
    put32(p + 16, body->flags);
    put32(p + 20, 0);
    put_text(p + BODY, body->bytes);
}

void as_policy_put_event(struct as_buf *b, enum as_policy_kind kind,
                         const struct as_policy_event *e)
{
    uint8_t *p = put_record(b, kind, EVENT);

    put64(p, e->id);
    put32(p + 8, e->number);
    put32(p + 12, 0);
}

void as_policy_put_ready(struct as_buf *b, const struct as_policy_ready *r)
{
    uint8_t *p = put_record(b, AS_POLICY_READY, READY);

    put32(p, r->wants);
    put32(p + 4, 0);
}

void as_policy_put_choice(struct as_buf *b, const struct as_policy_choice *c)
{
    uint8_t *p;

    AS_ASSERT(c->n <= AS_POLICY_CHOICES);
    p = put_record(b, AS_POLICY_CHOICE, CHOICE + (size_t)c->n * CHOSEN);
    put64(p, c->id);
    put32(p + 8, (uint32_t)c->reason);
    put32(p + 12, c->n);
    for (uint32_t i = 0; i < c->n; i++) {
        put32(p + CHOICE + (size_t)i * CHOSEN, c->at[i].number);
        put32(p + CHOICE + (size_t)i * CHOSEN + 4, c->at[i].rank);
    }
}

void as_frame_put_policy(struct as_outq *q, struct as_str records)
{
    uint8_t *p;

    AS_ASSERT(records.n && records.n <= AS_FRAME_MAX);
    p = put_frame(q, AS_FRAME_POLICY, 0, records.n);
    put_header(p - AS_FRAME_HEADER, AS_FRAME_POLICY, AS_FRAME_F_OPTIONAL, 0, (uint32_t)records.n);
    memcpy(p, records.p, records.n);
}

/* --- reading --- */

static const uint8_t *bytes_of(struct as_str s)
{
    return (const uint8_t *)s.p;
}

int as_policy_next(struct as_str *rest, struct as_policy_record *ret_r)
{
    const uint8_t *p = bytes_of(*rest);
    size_t n, total;

    if (!rest->n)
        return 0;
    if (rest->n < AS_POLICY_RECORD)
        return AS_EPROTO;
    n = get32(p + 4);
    total = AS_POLICY_RECORD + AS_ALIGN(n, (size_t)8);
    if (!get32(p) || n > AS_FRAME_MAX || total > rest->n)
        return AS_EPROTO;
    *ret_r = (struct as_policy_record){get32(p), {rest->p + AS_POLICY_RECORD, n}};
    *rest = (struct as_str){rest->p + total, rest->n - total};
    return 1;
}

/* The next n bytes; the caller has checked the sum. */
static struct as_str take(const uint8_t **p, size_t n)
{
    struct as_str s = {(const char *)*p, n};

    *p += n;
    return s;
}

int as_policy_get_replica(struct as_str body, struct as_policy_replica *ret_r)
{
    const uint8_t *p = bytes_of(body);
    struct as_policy_replica r;
    uint32_t flags, models, stats;
    size_t name, node, zone;

    if (body.n < REPLICA)
        return AS_EPROTO;
    name = get16(p + 12);
    node = get16(p + 14);
    zone = get16(p + 16);
    flags = get16(p + 18);
    models = get32(p + 20);
    stats = get32(p + 24);
    if (!name || name > AS_POLICY_NAME || node > AS_POLICY_NAME || zone > AS_POLICY_NAME ||
        models > AS_POLICY_FACTS || stats > AS_POLICY_FACTS || get32(p + 28) ||
        flags & ~(F_MODELS | F_STATS) || (models && !(flags & F_MODELS)) ||
        (stats && !(flags & F_STATS)) || body.n != REPLICA + name + node + zone + models + stats)
        return AS_EPROTO;
    r = (struct as_policy_replica){.number = get32(p),
                                   .max_ongoing = get32(p + 4),
                                   .ongoing = get32(p + 8),
                                   .has_models = flags & F_MODELS,
                                   .has_stats = flags & F_STATS};
    p += REPLICA;
    r.name = take(&p, name);
    r.node = take(&p, node);
    r.zone = take(&p, zone);
    r.models = take(&p, models);
    r.stats = take(&p, stats);
    *ret_r = r;
    return 0;
}

int as_policy_get_ongoing(struct as_str body, uint32_t *ret_n)
{
    if (!body.n || body.n % COUNT || body.n / COUNT > AS_POLICY_COUNTS)
        return AS_EPROTO;
    *ret_n = (uint32_t)(body.n / COUNT);
    return 0;
}

struct as_policy_count as_policy_count_at(struct as_str body, uint32_t i)
{
    const uint8_t *p = bytes_of(body) + (size_t)i * COUNT;

    return (struct as_policy_count){get32(p), get32(p + 4)};
}

int as_policy_get_route(struct as_str body, struct as_policy_route *ret_r)
{
    const uint8_t *p = bytes_of(body);
    size_t method, model, session, request, here;
    struct as_policy_route r;

    if (body.n < ROUTE)
        return AS_EPROTO;
    here = get32(p + 24);
    method = get16(p + 32);
    model = get16(p + 34);
    session = get16(p + 36);
    request = get16(p + 38);
    r = (struct as_policy_route){.id = get64(p),
                                 .before = get64(p + 40),
                                 .created = get64(p + 8),
                                 .body_len = get64(p + 16),
                                 .kind = p[28]};
    if (method > AS_POLICY_TEXT || model > AS_POLICY_TEXT || session > AS_POLICY_TEXT ||
        request > AS_POLICY_TEXT || here > AS_POLICY_BODY_FIRST || here > r.body_len ||
        get32(p + 28) > UINT8_MAX || body.n != ROUTE + method + model + session + request + here)
        return AS_EPROTO;
    p += ROUTE;
    r.method = take(&p, method);
    r.model_id = take(&p, model);
    r.session_id = take(&p, session);
    r.request_id = take(&p, request);
    r.body = take(&p, here);
    *ret_r = r;
    return 0;
}

int as_policy_get_body(struct as_str body, struct as_policy_body *ret_b)
{
    const uint8_t *p = bytes_of(body);

    if (body.n < BODY || body.n - BODY > AS_POLICY_BODY_PART ||
        get32(p + 16) & ~AS_POLICY_BODY_F_GONE || get32(p + 20))
        return AS_EPROTO;
    *ret_b = (struct as_policy_body){
        get64(p), get64(p + 8), get32(p + 16), {body.p + BODY, body.n - BODY}};
    return 0;
}

int as_policy_get_event(struct as_str body, struct as_policy_event *ret_e)
{
    const uint8_t *p = bytes_of(body);

    if (body.n != EVENT || get32(p + 12))
        return AS_EPROTO;
    *ret_e = (struct as_policy_event){get64(p), get32(p + 8)};
    return 0;
}

int as_policy_get_ready(struct as_str body, struct as_policy_ready *ret_r)
{
    const uint8_t *p = bytes_of(body);

    if (body.n != READY || get32(p) & ~(AS_POLICY_WANTS_ROUTED | AS_POLICY_WANTS_COMPLETED) ||
        get32(p + 4))
        return AS_EPROTO;
    ret_r->wants = get32(p);
    return 0;
}

int as_policy_get_choice(struct as_str body, struct as_policy_choice *ret_c)
{
    const uint8_t *p = bytes_of(body);
    struct as_policy_choice c = {0};
    uint32_t reason;

    if (body.n < CHOICE)
        return AS_EPROTO;
    c.id = get64(p);
    reason = get32(p + 8);
    c.n = get32(p + 12);
    if (reason >= AS_POLICY_REASONS || c.n > AS_POLICY_CHOICES ||
        (reason == AS_POLICY_CHOSEN) != (c.n > 0) || body.n != CHOICE + (size_t)c.n * CHOSEN)
        return AS_EPROTO;
    c.reason = (enum as_policy_reason)reason;
    for (uint32_t i = 0; i < c.n; i++) {
        c.at[i].number = get32(p + CHOICE + (size_t)i * CHOSEN);
        c.at[i].rank = get32(p + CHOICE + (size_t)i * CHOSEN + 4);
        if (i && c.at[i].rank < c.at[i - 1].rank)
            return AS_EPROTO;
    }
    *ret_c = c;
    return 0;
}
