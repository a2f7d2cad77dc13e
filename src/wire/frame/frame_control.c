/* The small frames of the link: all except messages and REGISTER. */
#include "base/err.h"
#include "base/utf8.h"
#include "wire/frame/frame_le.h"

#define HELLO_FIXED      48u
#define ERROR_FIXED      24u
#define REGISTERED_FIXED 16u
#define CONTROL_FIXED    16u
#define CREDIT_FIXED     24u
#define BATCH_FIXED      16u
#define OPTION_ROW       16u
#define TRAFFIC_FIXED    16u

static void put_text(uint8_t *p, struct as_str s)
{
    if (s.n)
        memcpy(p, s.p, s.n);
}

/* Cuts a text to AS_FRAME_TEXT bytes, not inside a UTF-8 sequence. */
static struct as_str cut_text(struct as_str s)
{
    return as_utf8_cut(s, AS_FRAME_TEXT);
}

/* Reads a text of `len` bytes after the fixed part, which must be the rest of the frame. */
static int get_text_at(const struct as_frame *f, size_t fixed, uint32_t len, size_t max,
                       struct as_str *ret)
{
    if (len > max || f->n - fixed != len)
        return AS_EPROTO;
    *ret = (struct as_str){(const char *)f->p + fixed, len};
    return 0;
}

static int get_text(const struct as_frame *f, size_t fixed, uint32_t len, struct as_str *ret)
{
    return get_text_at(f, fixed, len, AS_FRAME_TEXT, ret);
}

void as_frame_put_error(struct as_outq *q, uint64_t stream, const struct as_frame_error *e)
{
    struct as_str text = cut_text(e->message);
    uint8_t *p = put_frame(q, AS_FRAME_ERROR, stream, ERROR_FIXED + text.n);

    put32(p, e->code);
    put32(p + 4, e->flags);
    put64(p + 8, e->service);
    put32(p + 16, (uint32_t)text.n);
    put32(p + 20, 0);
    put_text(p + ERROR_FIXED, text);
}

int as_frame_get_error(const struct as_frame *f, struct as_frame_error *ret_e)
{
    struct as_frame_error e;

    if (f->n < ERROR_FIXED || get32(f->p + 20))
        return AS_EPROTO;
    e.code = get32(f->p);
    e.flags = get32(f->p + 4);
    e.service = get64(f->p + 8);
    if (e.code < 1 || e.code > 16 || (e.flags & ~(AS_ERROR_F_RETRY | AS_ERROR_F_STARTED)) ||
        get_text(f, ERROR_FIXED, get32(f->p + 16), &e.message))
        return AS_EPROTO;
    *ret_e = e;
    return 0;
}

void as_frame_put_hello(struct as_outq *q, const struct as_frame_hello *h)
{
    struct as_str peer = {h->peer.p, AS_MIN(h->peer.n, (size_t)AS_FRAME_NAME)};
    const struct as_str text[] = {h->token, h->replica, h->deployment, peer};
    size_t n = HELLO_FIXED;
    uint8_t *p;

    for (size_t i = 0; i < AS_COUNT(text); i++) {
        AS_ASSERT(text[i].n <= AS_FRAME_NAME);
        n += text[i].n;
    }
    p = put_frame(q, AS_FRAME_HELLO, 0, n);
    put32(p, AS_FRAME_MAGIC);
    put16(p + 4, h->lo);
    put16(p + 6, h->hi);
    put64(p + 8, h->capabilities);
    put64(p + 16, h->epoch);
    put64(p + 24, h->max_message);
    put32(p + 32, h->pid);
    put32(p + 44, 0);
    n = HELLO_FIXED;
    for (size_t i = 0; i < AS_COUNT(text); i++) {
        put16(p + 36 + 2 * i, (uint16_t)text[i].n);
        put_text(p + n, text[i]);
        n += text[i].n;
    }
}

int as_frame_get_hello(const struct as_frame *f, struct as_frame_hello *ret_h)
{
    struct as_frame_hello h;
    struct as_str *text[] = {&h.token, &h.replica, &h.deployment, &h.peer};
    const uint8_t *p = f->p;
    size_t n = HELLO_FIXED;

    if (f->n < HELLO_FIXED || get32(p) != AS_FRAME_MAGIC || get32(p + 44))
        return AS_EPROTO;
    h.lo = get16(p + 4);
    h.hi = get16(p + 6);
    h.capabilities = get64(p + 8);
    h.epoch = get64(p + 16);
    h.max_message = get64(p + 24);
    h.pid = get32(p + 32);
    if (!h.lo || h.lo > h.hi)
        return AS_EPROTO;
    for (size_t i = 0; i < AS_COUNT(text); i++) {
        size_t len = get16(p + 36 + 2 * i);

        if (len > AS_FRAME_NAME || len > f->n - n)
            return AS_EPROTO;
        *text[i] = (struct as_str){(const char *)p + n, len};
        n += len;
    }
    if (n != f->n)
        return AS_EPROTO;
    *ret_h = h;
    return 0;
}

void as_frame_put_registered(struct as_outq *q, const struct as_frame_registered *r)
{
    struct as_str text = cut_text(r->message);
    uint8_t *p = put_frame(q, AS_FRAME_REGISTERED, 0, REGISTERED_FIXED + text.n);

    put32(p, r->model);
    put32(p + 4, r->target);
    put32(p + 8, r->code);
    put32(p + 12, (uint32_t)text.n);
    put_text(p + REGISTERED_FIXED, text);
}

int as_frame_get_registered(const struct as_frame *f, struct as_frame_registered *ret_r)
{
    struct as_frame_registered r;

    if (f->n < REGISTERED_FIXED)
        return AS_EPROTO;
    r.model = get32(f->p);
    r.target = get32(f->p + 4);
    r.code = get32(f->p + 8);
    if (r.code > 16 || get_text(f, REGISTERED_FIXED, get32(f->p + 12), &r.message))
        return AS_EPROTO;
    *ret_r = r;
    return 0;
}

void as_frame_put_credit(struct as_outq *q, uint64_t stream, const struct as_frame_credit *c)
{
    uint8_t *p = put_frame(q, AS_FRAME_CREDIT, stream, CREDIT_FIXED);

    put32(p, c->slots);
    put32(p + 4, c->prefetch);
    put32(p + 8, c->messages);
    put32(p + 12, 0);
    put64(p + 16, c->bytes);
}

int as_frame_get_credit(const struct as_frame *f, struct as_frame_credit *ret_c)
{
    if (f->n != CREDIT_FIXED || get32(f->p + 12))
        return AS_EPROTO;
    *ret_c = (struct as_frame_credit){.slots = get32(f->p),
                                      .prefetch = get32(f->p + 4),
                                      .messages = get32(f->p + 8),
                                      .bytes = get64(f->p + 16)};
    return 0;
}

int as_frame_window_add(struct as_frame_window *w, const struct as_frame_credit *c)
{
    if (c->slots || c->prefetch || c->messages > AS_FRAME_CREDIT_MESSAGES ||
        c->bytes > AS_FRAME_CREDIT_BYTES ||
        w->messages + c->messages > (int64_t)AS_FRAME_CREDIT_MESSAGES ||
        w->bytes + (int64_t)c->bytes > (int64_t)AS_FRAME_CREDIT_BYTES)
        return AS_EPROTO;
    w->messages += c->messages;
    w->bytes += (int64_t)c->bytes;
    return 0;
}

void as_frame_put_end(struct as_outq *q, uint64_t stream, uint64_t service)
{
    put64(put_frame(q, AS_FRAME_END, stream, 8), service);
}

int as_frame_get_end(const struct as_frame *f, uint64_t *ret_service)
{
    if (f->n != 8)
        return AS_EPROTO;
    *ret_service = get64(f->p);
    return 0;
}

void as_frame_put_ids(struct as_outq *q, enum as_frame_type type, const uint64_t *ids, uint32_t n)
{
    do {
        uint32_t k = AS_MIN(n, AS_FRAME_IDS);
        uint8_t *p = put_frame(q, type, 0, 8 * (size_t)k);

        if (k)
            memcpy(p, ids, 8 * (size_t)k);
        ids += k;
        n -= k;
    } while (n);
}

int as_frame_get_ids(const struct as_frame *f, uint64_t *ids, uint32_t cap, uint32_t *ret_n)
{
    uint32_t n = f->n / 8;

    if (f->n % 8 || n > AS_FRAME_IDS || n > cap)
        return AS_EPROTO;
    if (n)
        memcpy(ids, f->p, f->n);
    *ret_n = n;
    return 0;
}

void as_frame_put_batch(struct as_outq *q, const struct as_frame_batch *b)
{
    uint8_t *p = put_frame(q, AS_FRAME_BATCH, 0, BATCH_FIXED);

    put64(p, b->first);
    put32(p + 8, b->n);
    put32(p + 12, 0);
}

int as_frame_get_batch(const struct as_frame *f, struct as_frame_batch *ret_b)
{
    struct as_frame_batch b;

    if (f->n != BATCH_FIXED || get32(f->p + 12))
        return AS_EPROTO;
    b = (struct as_frame_batch){.first = get64(f->p), .n = get32(f->p + 8)};
    if (!(b.first & 1) || b.n < 2 || b.n > AS_FRAME_BATCH_MAX ||
        b.first > UINT64_MAX - 2 * (uint64_t)AS_FRAME_BATCH_MAX)
        return AS_EPROTO;
    *ret_b = b;
    return 0;
}

void as_frame_put_cancel(struct as_outq *q, uint64_t stream, uint32_t reason)
{
    put64(put_frame(q, AS_FRAME_CANCEL, stream, 8), reason);
}

int as_frame_get_cancel(const struct as_frame *f, uint32_t *ret_reason)
{
    uint64_t reason;

    if (f->n != 8)
        return AS_EPROTO;
    reason = get64(f->p);
    if (reason < 1 || reason > 16)
        return AS_EPROTO;
    *ret_reason = (uint32_t)reason;
    return 0;
}

void as_frame_put_control(struct as_outq *q, uint64_t stream, const struct as_frame_control *c)
{
    struct as_str text = c->reply ? cut_text(c->text) : c->text;
    uint8_t *p = put_frame(q, AS_FRAME_CONTROL, stream, CONTROL_FIXED + text.n);

    AS_ASSERT(text.n <= AS_FRAME_CONTROL_TEXT);

    put16(p, c->op);
    put16(p + 2, c->reply ? 1 : 0);
    put32(p + 4, c->code);
    put32(p + 8, (uint32_t)text.n);
    put32(p + 12, 0);
    put_text(p + CONTROL_FIXED, text);
}

int as_frame_get_control(const struct as_frame *f, struct as_frame_control *ret_c)
{
    struct as_frame_control c;
    uint16_t reply;

    if (f->n < CONTROL_FIXED || get32(f->p + 12))
        return AS_EPROTO;
    c.op = get16(f->p);
    reply = get16(f->p + 2);
    c.reply = reply == 1;
    c.code = get32(f->p + 4);
    if (reply > 1 || c.code > 16 ||
        get_text_at(f, CONTROL_FIXED, get32(f->p + 8),
                    reply ? AS_FRAME_TEXT : AS_FRAME_CONTROL_TEXT, &c.text))
        return AS_EPROTO;
    *ret_c = c;
    return 0;
}

void as_frame_put_options(struct as_outq *q, const struct as_frame_options *o)
{
    uint32_t n = OPTION_ROW * (uint32_t)__builtin_popcount(o->has & ~1u);
    uint8_t *p = put_frame(q, AS_FRAME_OPTIONS, 0, n);

    /* a dispatcher that does not know this frame still serves the worker */
    put_header(p - AS_FRAME_HEADER, AS_FRAME_OPTIONS, AS_FRAME_F_OPTIONAL, 0, n);
    for (uint32_t key = 1; key < AS_FRAME_OPTION_END; key++) {
        if (!(o->has >> key & 1))
            continue;
        put32(p, key);
        put32(p + 4, 0);
        put64(p + 8, o->value[key]);
        p += OPTION_ROW;
    }
}

static bool is_option(uint32_t key, uint64_t v)
{
    if (key == AS_FRAME_OPT_DUMP_SIGNAL)
        return v <= 64;
    if (key == AS_FRAME_OPT_HEALTH_FAILURES)
        return v >= 1 && v <= AS_FRAME_FAILURES_MAX;
    if (key == AS_FRAME_OPT_MAX_QUEUED)
        return (v >= 1 && v <= AS_FRAME_QUEUED_MAX) || v == AS_FRAME_QUEUED_ANY;
    if (key == AS_FRAME_OPT_IDEMPOTENT || key == AS_FRAME_OPT_PER_CALLER ||
        key == AS_FRAME_OPT_ADAPTIVE)
        return v <= 1;
    if (key == AS_FRAME_OPT_PRIORITY_SHARE)
        return v >= AS_FRAME_SHARE_LEAST && v <= AS_FRAME_SHARE_MOST;
    if (key == AS_FRAME_OPT_HEDGE_QUANTILE)
        return v < 1000;
    if (key == AS_FRAME_OPT_HEDGE_BUDGET)
        return v >= 1 && v <= 1000;
    if (key == AS_FRAME_OPT_FAIRNESS)
        return v <= AS_FRAME_FAIR_COST;
    if (key == AS_FRAME_OPT_BACKPRESSURE_STATUS)
        return v == 429 || v == 503;
    return v <= AS_FRAME_OPTION_MAX &&
           (v || (key != AS_FRAME_OPT_HEALTH_TIMEOUT && key != AS_FRAME_OPT_CODEL_INTERVAL));
}

int as_frame_get_options(const struct as_frame *f, struct as_frame_options *ret_o)
{
    struct as_frame_options o = {0};

    if (f->n % OPTION_ROW || f->n / OPTION_ROW > AS_FRAME_OPTION_ROWS)
        return AS_EPROTO;
    for (const uint8_t *p = f->p; p < f->p + f->n; p += OPTION_ROW) {
        uint32_t key = get32(p);

        if (!key || get32(p + 4))
            return AS_EPROTO;
        if (key >= AS_FRAME_OPTION_END)
            continue;
        if ((o.has >> key & 1) || !is_option(key, get64(p + 8)))
            return AS_EPROTO;
        o.has |= 1u << key;
        o.value[key] = get64(p + 8);
    }
    *ret_o = o;
    return 0;
}

void as_frame_put_traffic(struct as_outq *q, const struct as_frame_traffic *t)
{
    size_t n = TRAFFIC_FIXED + t->fallback.n;
    uint8_t *p = put_frame(q, AS_FRAME_TRAFFIC, 0, n);

    AS_ASSERT(t->fallback.n <= AS_FRAME_NAME);
    put_header(p - AS_FRAME_HEADER, AS_FRAME_TRAFFIC, AS_FRAME_F_OPTIONAL, 0, (uint32_t)n);
    put32(p, t->flags);
    put32(p + 4, t->canary);
    put32(p + 8, t->mirror);
    put32(p + 12, (uint32_t)t->fallback.n);
    put_text(p + TRAFFIC_FIXED, t->fallback);
}

int as_frame_get_traffic(const struct as_frame *f, struct as_frame_traffic *ret_t)
{
    struct as_frame_traffic t;

    if (f->n < TRAFFIC_FIXED)
        return AS_EPROTO;
    t.flags = get32(f->p);
    t.canary = get32(f->p + 4);
    t.mirror = get32(f->p + 8);
    if ((t.flags & ~AS_FRAME_CANARY) || t.canary > AS_FRAME_SHARE || t.mirror > AS_FRAME_SHARE ||
        (t.canary && !t.flags) ||
        get_text_at(f, TRAFFIC_FIXED, get32(f->p + 12), AS_FRAME_NAME, &t.fallback))
        return AS_EPROTO;
    *ret_t = t;
    return 0;
}

void as_frame_put_ping(struct as_outq *q, enum as_frame_type type, uint64_t opaque)
{
    put64(put_frame(q, type, 0, 8), opaque);
}

int as_frame_get_ping(const struct as_frame *f, uint64_t *ret_opaque)
{
    if (f->n != 8)
        return AS_EPROTO;
    *ret_opaque = get64(f->p);
    return 0;
}

void as_frame_put_text(struct as_outq *q, enum as_frame_type type, struct as_str text)
{
    text = cut_text(text);
    put_text(put_frame(q, type, 0, text.n), text);
}

int as_frame_get_text(const struct as_frame *f, struct as_str *ret_text)
{
    return get_text(f, 0, f->n, ret_text);
}
