/* The bytes of a request: their memory, their charge to the budgets, inflating. */
#include "base/err.h"
#include "edge/exchange/exchange.h"

/* --- budgets --- */

void as_exchange_fail_room(struct as_exchange *x, int err, const char *what, uint64_t n)
{
    const struct as_budget *b = x->budget.requests->budget;

    if (err == AS_ENOMEM)
        as_exchange_fail(x, err, "no memory for %lu bytes of the request", (unsigned long)n);
    else if (n > as_budget_account_limit(b))
        as_exchange_fail(x, AS_ETOOBIG,
                         "%s of %lu bytes is over what one connection may hold (--connection-share "
                         "%u percent of --max-inflight-bytes %lu)",
                         what, (unsigned long)n, b->share, (unsigned long)b->limit);
    else
        as_exchange_fail(x, AS_EFULL,
                         "%s of %lu bytes does not fit into --max-inflight-bytes %lu now, of which "
                         "this connection holds %lu (--connection-share %u)",
                         what, (unsigned long)n, (unsigned long)b->limit,
                         (unsigned long)as_account_charged(x->budget.requests), b->share);
}

bool as_exchange_charge(struct as_exchange *x, uint64_t n, const char *what)
{
    if (as_account_try_charge(x->budget.requests, n)) {
        x->budget.reserved += n;
        return true;
    }
    as_exchange_fail_room(x, AS_EFULL, what, n);
    return false;
}

void as_exchange_fail_answer(struct as_exchange *x, int err, size_t n)
{
    const struct as_budget *b = x->budget.answers->budget;

    if (err == AS_ENOMEM)
        as_exchange_fail(x, err, "no memory for the answer");
    else
        as_exchange_fail(x, AS_EUNTAKEN,
                         "the answer of %zu bytes does not fit into --max-answer-bytes %lu now, of "
                         "which this connection holds %lu (--connection-share %u)",
                         n, (unsigned long)b->limit,
                         (unsigned long)as_account_charged(x->budget.answers), b->share);
}

struct as_blob *as_exchange_answer_blob(struct as_exchange *x, size_t n)
{
    struct as_blob *b = NULL;
    int err = as_blob_new_charged(x->budget.answers, n, &b);

    if (err)
        as_exchange_fail_answer(x, err, n);
    return b;
}

uint8_t *as_exchange_answer_room(struct as_exchange *x, size_t n, struct as_blob **ret_blob)
{
    *ret_blob = NULL;
    if (n <= AS_COPY_MAX)
        return as_exchange_alloc(x, n, 1, "the answer");
    *ret_blob = as_exchange_answer_blob(x, n);
    return *ret_blob ? (*ret_blob)->data : NULL;
}

/* --- the body --- */

static __attribute__((noinline)) bool fail_no_room(struct as_exchange *x, int err)
{
    as_exchange_fail_room(x, err, "message", x->body.len);
    as_exchange_free_body(x);
    return false;
}

static __attribute__((noinline)) bool refuse_message(struct as_exchange *x, uint64_t len)
{
    const struct as_edge_conf *conf = &x->edge->conf;

    if (len > conf->max_message)
        as_exchange_fail(x, AS_ETOOBIG, "message of %lu bytes is over %s %lu", (unsigned long)len,
                         conf->message_option, (unsigned long)conf->max_message);
    else
        as_exchange_fail(x, AS_EINTERNAL, "compressed message without a grpc-encoding");
    return false;
}

/* Starts a blob that grows as the message is received. Refuses a message that can never fit. */
static __attribute__((noinline)) bool reserve_large_message(struct as_exchange *x)
{
    int err = x->body.len > as_budget_account_limit(x->budget.requests->budget)
                  ? AS_EFULL
                  : as_blob_new_growing(x->budget.requests, x->body.len, &x->body.blob);

    if (err)
        return fail_no_room(x, err);
    x->body.p = x->body.blob->data;
    x->body.room = as_blob_grow_at(x->body.blob, x->body.len);
    as_conn_expect(x->conn, x->stream, x->body.len);
    return true;
}

bool as_exchange_begin_message(struct as_exchange *x, uint64_t len, bool compressed, bool own_blob)
{
    if (len > x->edge->conf.max_message || (compressed && x->body.encoding == AS_GZIP_NONE))
        return refuse_message(x, len);
    x->body.is_compressed = compressed;
    x->body.len = (size_t)len;
    x->body.filled = 0;
    if (len > AS_COPY_MAX || own_blob)
        return reserve_large_message(x);
    if (!as_account_try_charge(x->budget.requests, len))
        return fail_no_room(x, AS_EFULL);
    x->budget.reserved = len;
    x->body.room = x->body.len;
    x->body.p = as_arena_alloc(&x->arena, x->body.len, AS_BLOB_ALIGN);
    return x->body.p || fail_no_room(x, AS_ENOMEM);
}

/* Makes room for `need` bytes of the message. */
static __attribute__((noinline)) bool extend_body(struct as_exchange *x, size_t need)
{
    int err = as_blob_grow(&x->body.blob, as_blob_grow_to(need, x->body.len));

    if (err)
        return fail_no_room(x, err);
    x->body.p = x->body.blob->data;
    x->body.room = as_blob_grow_at(x->body.blob, x->body.len);
    return true;
}

bool as_exchange_append(struct as_exchange *x, const uint8_t *p, size_t n)
{
    if (n > x->body.room - x->body.filled && !extend_body(x, x->body.filled + n))
        return false;
    memcpy(x->body.p + x->body.filled, p, n);
    x->body.filled += n;
    return true;
}

void as_exchange_free_body(struct as_exchange *x)
{
    if (x->conn)
        as_conn_receive_into(x->conn, x->stream, NULL, 0);
    as_blob_unref(x->body.blob);
    x->body.blob = NULL;
    x->body.p = NULL;
    x->body.len = x->body.filled = x->body.room = 0;
}

static void fail_inflate(struct as_exchange *x, int err)
{
    struct as_str name = as_gzip_name(x->body.encoding);

    if (!x->grpc &&
        err == AS_EINTERNAL) /* plain HTTP: the client's fault, 400; gRPC prescribes INTERNAL */
        err = AS_EINVALID;
    if (err == AS_ETOOBIG)
        as_exchange_fail(x, err, "message inflates to more than %s %lu",
                         x->edge->conf.inflated_option, (unsigned long)x->edge->conf.max_inflated);
    else if (err == AS_EFULL)
        as_exchange_fail(x, err,
                         "inflated message does not fit into --max-inflight-bytes %lu now, of "
                         "which this connection holds %lu (--connection-share %u)",
                         (unsigned long)x->budget.requests->budget->limit,
                         (unsigned long)as_account_charged(x->budget.requests),
                         x->budget.requests->budget->share);
    else if (err == AS_ENOMEM)
        as_exchange_fail(x, err, "no memory to inflate the message");
    else
        as_exchange_fail(x, err, "compressed message is not valid %.*s", AS_STR_FMT(name));
}

static void on_inflated(void *arg, const struct as_compress_result *r)
{
    struct as_exchange *x = arg;

    if (r->err) {
        fail_inflate(x, r->err);
        return;
    }
    as_blob_unref(x->body.blob);
    x->body.blob = r->blob; /* zeros behind it: edge/rest/rest_body.h */
    x->body.p = r->blob->data;
    x->body.len = x->body.filled = x->body.room = r->n;
    x->body.on_inflated(x);
}

void as_exchange_inflate(struct as_exchange *x, void (*done)(struct as_exchange *x))
{
    const struct as_http_piece in = {x->body.p, x->body.len, NULL};

    x->body.on_inflated = done;
    as_compress_start(&x->edge->compressor, x->budget.requests, x->body.encoding, true, &in, 1,
                      x->edge->conf.max_inflated, on_inflated, x, &x->pending.compress);
}
