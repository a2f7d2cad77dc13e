/* What a worker gives back of a call: messages, and the status with its trailers. */
#include "edge/service/service.h"
#include "wire/http/http_field.h"

#define TRAILERS_MAX 64u /* metadata at the end of a call */
#define BAD          "the deployment's answer is not one of a gRPC service: %s"

/* The next line of the block. False: there is none. */
static bool next_line(struct as_str *rest, struct as_str *ret_line)
{
    const char *end = rest->n ? memchr(rest->p, '\n', rest->n) : NULL;
    size_t n = end ? (size_t)(end - rest->p) : rest->n;

    if (!rest->p)
        return false;
    *ret_line = (struct as_str){rest->p, n};
    *rest = end ? (struct as_str){end + 1, rest->n - n - 1} : (struct as_str){0};
    return true;
}

static bool is_trailer(const struct as_http_header *h)
{
    return as_http_field_is_valid(h) && !as_grpc_is_reserved(h->name);
}

/* Whether it can be sent as grpc-message: encoded already. */
static bool is_message(struct as_str s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] < ' ' || s.p[i] > '~')
            return false;
    }
    return s.n <= AS_GRPC_MESSAGE_MAX;
}

/* NULL, or what is wrong with it. */
static const char *read_trailers(struct as_str rest, struct as_http_header *h,
                                 struct as_service_answer *a)
{
    uint32_t n = a->n_trailers;
    struct as_str key, value;

    while (next_line(&rest, &key)) {
        if (!next_line(&rest, &value))
            return "a key of its trailers has no value";
        if (as_str_eq(key, AS_STR("grpc-encoding"))) { /* it is none of them */
            if (as_gzip_format_of(value, &a->encoding))
                return "its encoding is unknown";
            a->has_encoding = true;
            continue;
        }
        if (n == TRAILERS_MAX)
            return "it has more than 62 trailers";
        h[n] = (struct as_http_header){key, value};
        if (!is_trailer(&h[n]))
            return "a trailer is no valid metadata";
        n++;
    }
    a->n_trailers = n;
    return NULL;
}

/* The block: the status, its text as in grpc-message, then a key and a value in turn; lines. The
 * key grpc-encoding says how the message is to be compressed. */
static const char *read_status(struct as_exchange *x, struct as_str block,
                               struct as_service_answer *a)
{
    struct as_http_header *h = as_arena_alloc(&x->arena, TRAILERS_MAX * sizeof(*h), 8);
    struct as_str status, text;
    char *copy = as_arena_alloc(&x->arena, block.n, 1);
    uint64_t number;
    uint32_t n = 0;

    if (!h || (block.n && !copy))
        return "no memory for its trailers";
    if (block.n) /* a part is not kept until the end of the call */
        memcpy(copy, block.p, block.n);
    block.p = copy;
    if (!next_line(&block, &status) || as_str_u64(status, &number) < 0 || number > 16 ||
        !next_line(&block, &text) || !is_message(text))
        return "its status is malformed";
    h[n++] = (struct as_http_header){AS_STR("grpc-status"), status};
    if (text.n)
        h[n++] = (struct as_http_header){AS_STR("grpc-message"), text};
    a->status = (uint32_t)number;
    a->has_status = true;
    a->trailers = h;
    a->n_trailers = n;
    return read_trailers(block, h, a);
}

bool as_service_read_answer(struct as_exchange *x, const struct as_payload *p,
                            struct as_service_answer *ret_a)
{
    struct as_body b;
    const char *why;
    int err = as_body_get((const uint8_t *)p->body.p, p->body.n, true, &x->arena, &b, &why);

    *ret_a = (struct as_service_answer){0};
    if (err == AS_ENOMEM) {
        as_exchange_fail(x, err, "no memory for the answer");
        return false;
    }
    AS_ASSERT(!err); /* the link has checked it */
    ret_a->message = b.data;
    why = NULL;
    if (b.codec != AS_BODY_BYTES)
        why = "it is a Python object";
    else if (b.n_parts || b.n_buffers > 1)
        why = "it has several parts";
    else if (b.data.n > UINT32_MAX)
        why = "a message has more than 4 GiB";
    else if (b.n_buffers)
        why = read_status(x, b.buffers[0], ret_a);
    if (why) {
        as_exchange_fail(x, AS_EINTERNAL, BAD, why);
        return false;
    }
    if (b.flags & AS_BODY_F_EXCEPTION) { /* of a worker that does not know gRPC */
        as_exchange_fail(x, AS_EINTERNAL, "%.*s", AS_STR_CUT(b.data, 1000));
        return false;
    }
    return true;
}

void as_service_send_error(struct as_exchange *x)
{
    const struct as_outcome *o = &x->call.outcome;

    x->answer.retry_after = o->retry_after;
    if (o->status)
        as_exchange_fail_status(x, o->status, o->message, NULL, 0);
    else if (o->err == AS_EUNTAKEN)
        as_exchange_fail_answer(x, o->err, o->dropped);
    else if (o->message.n)
        as_exchange_fail(x, o->err, "%.*s", AS_STR_CUT(o->message, 1000));
    else
        as_exchange_fail(x, o->err, "%s", as_err_text(o->err));
}
