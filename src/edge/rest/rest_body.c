#include "edge/rest/rest_body.h"

#include "edge/rest/rest.h"

#define FIRST_ROOM 2048u /* for a body whose length is not known */

/* --- the limit --- */

static uint64_t max_body(const struct as_exchange *x)
{
    return x->rest.route->flags & AS_REST_PICKLE ? x->edge->conf.max_pickle
                                                 : x->edge->conf.max_http_body;
}

static const char *limit_option(const struct as_exchange *x)
{
    return x->rest.route->flags & AS_REST_PICKLE ? x->edge->conf.pickle_option
                                                 : x->edge->conf.body_option;
}

static void fail_too_big(struct as_exchange *x)
{
    as_exchange_fail(x, AS_ETOOBIG, "the request body is over %s %lu", limit_option(x),
                     (unsigned long)max_body(x));
}

/* --- head --- */

/* Reads content-encoding: one coding, or "identity". An unknown one is refused with the list of
 * those that the server reads (RFC 9110, 12.5.3). */
static bool read_encoding(struct as_exchange *x)
{
    struct as_str coding = as_http_head_find(x->head, AS_STR("content-encoding"));

    if (as_str_eq(coding, AS_STR("x-gzip")))
        coding = AS_STR("gzip");
    if (as_gzip_format_of(coding, &x->body.encoding)) {
        as_exchange_fail(x, AS_EMEDIA,
                         "content-encoding '%.*s' is not supported; the server reads gzip, deflate",
                         AS_STR_CUT(coding, 64));
        return false;
    }
    x->body.is_compressed = x->body.encoding != AS_GZIP_NONE;
    return true;
}

/* --- memory for the body and the zeros behind it --- */

static bool fail_room(struct as_exchange *x, int err, size_t n)
{
    as_exchange_fail_room(x, err, "request body", n);
    as_exchange_free_body(x);
    return false;
}

static void use_blob(struct as_exchange *x)
{
    x->body.p = x->body.blob->data;
    x->body.room =
        AS_MIN(as_blob_grow_at(x->body.blob, x->body.len + AS_REST_BODY_PAD), x->body.len);
}

/* Memory for a small body of n bytes; bytes received before are copied. */
static bool reserve_in_arena(struct as_exchange *x, size_t n)
{
    uint8_t *p;

    if (!as_account_try_charge(x->budget.requests, n))
        return fail_room(x, AS_EFULL, n);
    p = as_arena_alloc(&x->arena, n + AS_REST_BODY_PAD, AS_BLOB_ALIGN);
    if (p && x->body.filled)
        memcpy(p, x->body.p, x->body.filled);
    as_account_uncharge(x->budget.requests, x->budget.reserved);
    x->budget.reserved = n;
    x->body.p = p;
    x->body.len = x->body.room = n;
    return p || fail_room(x, AS_ENOMEM, n);
}

/* Memory for a body of declared length n. A body that could never fit is refused at once. */
static bool reserve_known(struct as_exchange *x, size_t n)
{
    int err;

    if (n <= AS_COPY_MAX)
        return reserve_in_arena(x, n);
    err = n + AS_REST_BODY_PAD > as_budget_account_limit(x->budget.requests->budget)
              ? AS_EFULL
              : as_blob_new_growing(x->budget.requests, n + AS_REST_BODY_PAD, &x->body.blob);
    if (err)
        return fail_room(x, err, n + AS_REST_BODY_PAD);
    x->body.len = n;
    use_blob(x);
    return true;
}

bool as_rest_body_length(const struct as_exchange *x, uint64_t *ret_n)
{
    struct as_str s = as_http_head_find(x->head, AS_STR("content-length"));

    return s.n && as_str_u64(s, ret_n) == 0;
}

void as_rest_body_begin(struct as_exchange *x, bool wanted)
{
    uint64_t n;

    x->body.length_unknown = !as_rest_body_length(x, &n);
    if (x->body.length_unknown) {
        if (wanted)
            read_encoding(x); /* memory is reserved with the first bytes */
        return;
    }
    if (n > max_body(x)) {
        as_exchange_fail(x, AS_ETOOBIG, "a request body of %lu bytes is over %s %lu",
                         (unsigned long)n, limit_option(x), (unsigned long)max_body(x));
    } else if (wanted && read_encoding(x) && n && reserve_known(x, (size_t)n)) {
        as_conn_expect(x->conn, x->stream, (size_t)n);
        as_conn_receive_into(x->conn, x->stream, x->body.p, x->body.room);
    }
}

/* --- bytes --- */

/* Makes room for the next part of a body of declared length. */
static bool extend_known(struct as_exchange *x, size_t need)
{
    size_t n = as_blob_grow_to(need, x->body.len + AS_REST_BODY_PAD);
    int err = as_blob_grow(&x->body.blob, n);

    if (err)
        return fail_room(x, err, x->body.len + AS_REST_BODY_PAD);
    use_blob(x);
    return true;
}

/* Doubles the room of a body without a declared length. */
static bool grow_unknown(struct as_exchange *x, size_t need)
{
    size_t n = AS_MAX(x->body.len ? 2 * x->body.len : FIRST_ROOM, need);
    int err;

    n = AS_MIN(n, (size_t)max_body(x));
    if (n <= AS_COPY_MAX)
        return reserve_in_arena(x, n);
    err = x->body.blob
              ? as_blob_grow(&x->body.blob, n + AS_REST_BODY_PAD)
              : as_blob_new_charged(x->budget.requests, n + AS_REST_BODY_PAD, &x->body.blob);
    if (err)
        return fail_room(x, err, need + AS_REST_BODY_PAD);
    if (x->budget.reserved) { /* it was in the arena until now */
        memcpy(x->body.blob->data, x->body.p, x->body.filled);
        as_account_uncharge(x->budget.requests, x->budget.reserved);
        x->budget.reserved = 0;
    }
    x->body.len = n;
    use_blob(x);
    return true;
}

static bool extend_room(struct as_exchange *x, size_t need)
{
    return x->body.room < x->body.len ? extend_known(x, need) : grow_unknown(x, need);
}

void as_rest_body_receive(struct as_exchange *x, const uint8_t *p, size_t n)
{
    if (x->state != AS_EXCHANGE_RECEIVING)
        return;
    if (x->body.received > max_body(x)) {
        fail_too_big(x);
        return;
    }
    if (!(x->rest.route->flags & AS_REST_BODY))
        return;
    if (n > x->body.room - x->body.filled && !extend_room(x, x->body.filled + n))
        return;
    if (p != x->body.p + x->body.filled) /* otherwise it was received in place */
        memcpy(x->body.p + x->body.filled, p, n);
    x->body.filled += n;
    if (x->body.filled == x->body.room &&
        x->body.room < x->body.len && /* receive the next part in place */
        extend_room(x, x->body.filled + 1))
        as_conn_receive_into(x->conn, x->stream, x->body.p + x->body.filled,
                             x->body.room - x->body.filled);
}

void as_rest_body_end(struct as_exchange *x, void (*done)(struct as_exchange *x))
{
    x->body.len = x->body.filled;
    if (x->body.p)
        memset(x->body.p + x->body.len, 0, AS_REST_BODY_PAD);
    if (x->body.is_compressed)
        as_exchange_inflate(x, done);
    else
        done(x);
}
