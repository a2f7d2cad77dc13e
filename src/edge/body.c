#include "edge/body.h"

#include "edge/rest.h"

#define FIRST_ROOM 2048u /* for a body whose length is not known */

/* --- refusals --- */

static void too_big(struct as_exchange *x)
{
    as_exchange_fail(x, AS_ETOOBIG, "the request body is over %s %lu", x->edge->conf.body_option,
                     (unsigned long)x->edge->conf.max_http_body);
}

static void no_memory(struct as_exchange *x, size_t n)
{
    as_exchange_fail(x, AS_ENOMEM, "no memory for a request body of %lu bytes", (unsigned long)n);
}

/* It may fit when others are done; but not what is over the budget as a whole. */
static bool charge(struct as_exchange *x, size_t n)
{
    struct as_budget *b = x->edge->budget;

    if (as_budget_take(b, n)) {
        x->reserved += n;
        return true;
    }
    as_exchange_fail(x, n > b->limit ? AS_ETOOBIG : AS_EFULL,
                     "the request body does not fit into --max-inflight-bytes %lu now",
                     (unsigned long)b->limit);
    return false;
}

/* --- head --- */

/* One coding; "identity" is none. What we read is told to who sends another (RFC 9110, 12.5.3). */
static bool take_encoding(struct as_exchange *x)
{
    struct as_str coding = as_rest_header(x, "content-encoding");

    if (as_str_eq(coding, AS_STR("x-gzip")))
        coding = AS_STR("gzip");
    if (as_zip_format_of(coding, &x->encoding)) {
        as_exchange_fail(x, AS_EMEDIA,
                         "content-encoding '%.*s' is not supported; the server reads gzip, deflate",
                         (int)AS_MIN(coding.n, (size_t)64), coding.p);
        return false;
    }
    x->zipped = x->encoding != AS_ZIP_NONE;
    return true;
}

/* The room for a whole body, zeros behind it. */
static bool make_room(struct as_exchange *x, size_t n)
{
    uint8_t *p = NULL;
    struct as_blob *b = NULL;

    if (!charge(x, n))
        return false;
    if (n <= AS_COPY_MAX)
        p = as_arena_alloc(&x->arena, n + AS_BODY_PAD, AS_BLOB_ALIGN);
    else if ((b = as_blob_new(n + AS_BODY_PAD)))
        p = b->data;
    if (!p) {
        no_memory(x, n);
        return false;
    }
    if (x->body_have)
        memcpy(p, x->body, x->body_have);
    as_blob_unref(x->blob);
    x->blob = b;
    x->body = p;
    x->body_len = n;
    return true;
}

bool as_body_length(const struct as_exchange *x, uint64_t *ret_n)
{
    struct as_str s = as_rest_header(x, "content-length");

    return s.n && as_str_u64(s, ret_n) == 0;
}

void as_body_begin(struct as_exchange *x, bool wanted)
{
    uint64_t n;

    if (!as_body_length(x, &n)) {
        if (wanted)
            take_encoding(x); /* memory is taken when there is something */
        return;
    }
    if (n > x->edge->conf.max_http_body) {
        as_exchange_fail(x, AS_ETOOBIG, "a request body of %lu bytes is over %s %lu",
                         (unsigned long)n, x->edge->conf.body_option,
                         (unsigned long)x->edge->conf.max_http_body);
    } else if (wanted && take_encoding(x) && n && make_room(x, (size_t)n)) {
        as_conn_expect(x->conn, x->stream, (size_t)n);
        as_conn_into(x->conn, x->stream, x->body, (size_t)n);
    }
}

/* --- bytes --- */

/* Twice the room, for a body that does not say how long it is. The old room stays charged only as
 * long as it is there. */
static bool grow(struct as_exchange *x, size_t need)
{
    uint64_t before = x->reserved;
    size_t n = AS_MAX(x->body_len ? 2 * x->body_len : FIRST_ROOM, need);

    n = AS_MIN(n, (size_t)x->edge->conf.max_http_body);
    if (!make_room(x, n))
        return false;
    x->reserved -= before;
    as_budget_give(x->edge->budget, before);
    return true;
}

void as_body_data(struct as_exchange *x, const uint8_t *p, size_t n)
{
    if (x->state != AS_X_RECEIVING)
        return;
    if (x->got > x->edge->conf.max_http_body) {
        too_big(x);
        return;
    }
    if (!(x->rest.route->flags & AS_REST_BODY))
        return;
    if (n > x->body_len - x->body_have && !grow(x, x->body_have + n))
        return;
    if (p != x->body + x->body_have) /* else it was received in its place */
        memcpy(x->body + x->body_have, p, n);
    x->body_have += n;
}

void as_body_end(struct as_exchange *x, void (*done)(struct as_exchange *x))
{
    x->body_len = x->body_have;
    if (x->body)
        memset(x->body + x->body_len, 0, AS_BODY_PAD);
    if (x->zipped)
        as_exchange_inflate(x, done);
    else
        done(x);
}
