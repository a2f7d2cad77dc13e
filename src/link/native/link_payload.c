/* Payloads on a link: where it is known what requests and answers carry. */
#include "base/err.h"
#include "link/native/link.h"
#include "wire/frame/body.h"

static int put_call(struct as_link *l, enum as_frame_type type, uint64_t stream,
                    const struct as_frame_msg *fixed, const struct as_payload *p)
{
    struct as_frame_call c = {.priority = fixed->priority,
                              .target = fixed->target,
                              .timeout = fixed->timeout,
                              .flags = p->call_flags,
                              .id = p->msg.id,
                              .meta = p->msg.meta,
                              .n_meta = p->msg.n_meta,
                              .more = fixed->more,
                              .body_len = p->body.n,
                              .body = (const uint8_t *)p->body.p};

    return as_frame_put_call(&l->out, type, stream, &c, p->pieces, p->blob);
}

static int put_http(struct as_link *l, uint64_t stream, const struct as_frame_msg *fixed,
                    const struct as_payload *p)
{
    struct as_frame_http_open o = *p->http;

    o.priority = fixed->priority;
    o.target = fixed->target;
    o.timeout = fixed->timeout;
    o.body_len = p->body.n;
    o.body = (const uint8_t *)p->body.p;
    static_assert(AS_HTTP_F_BEYOND == AS_CALL_F_BEYOND, "one flag for both");
    o.flags |= p->call_flags & AS_HTTP_F_BEYOND;
    return as_frame_put_http_open(&l->out, stream, &o, p->blob);
}

void as_link_put_payload(struct as_link *l, enum as_frame_type type, uint64_t stream,
                         struct as_frame_msg *fixed, const struct as_payload *p)
{
    int err;

    if (l->capabilities & AS_CAP_TENSOR_PARAMS)
        fixed->tensor_params = p->tensor_params;
    if (p->kind == AS_FRAME_CALL)
        err = put_call(l, type, stream, fixed, p);
    else if (p->kind == AS_FRAME_HTTP)
        err = put_http(l, stream, fixed, p);
    else
        err = as_frame_put_msg(&l->out, type, stream, fixed, &p->msg, p->blob);
    AS_ASSERT(!err);
}

static const char *set_call_body(struct as_payload *p, const uint8_t *body, uint64_t n)
{
    const char *why;

    if (as_body_check(body, n, true, &why))
        return why;
    p->body = (struct as_str){(const char *)body, (size_t)n};
    return NULL;
}

static const char *decode_call(const struct as_frame *f, struct as_arena *a,
                               struct as_frame_msg *ret_m, struct as_payload *ret_p)
{
    struct as_frame_call c;
    const char *why;

    if (as_frame_get_call(f, a, &c, &why))
        return *why ? why : "out of memory";
    if (c.n_meta)
        return "an answer with headers";
    *ret_m = (struct as_frame_msg){.kind = AS_FRAME_CALL,
                                   .service = c.service,
                                   .ended = c.ended,
                                   .body_len = c.body_len,
                                   .body = c.body};
    ret_p->kind = AS_FRAME_CALL;
    ret_p->msg = (struct as_msg){0};
    ret_p->tensor_params = (struct as_tensor_params){0};
    return c.body ? set_call_body(ret_p, c.body, c.body_len) : NULL;
}

const char *as_link_decode(const struct as_call *c, const struct as_frame *f, struct as_arena *a,
                           struct as_frame_msg *ret_m, struct as_payload *ret_p)
{
    const char *why;

    if (c->payload.kind == AS_FRAME_CALL)
        return decode_call(f, a, ret_m, ret_p);
    ret_p->kind = AS_FRAME_TENSOR;
    if (as_frame_get_msg(f, a, ret_m, &ret_p->msg, &why))
        return *why ? why : "out of memory";
    ret_p->tensor_params = ret_m->tensor_params;
    return ret_m->id.n ? "an answer with a request id" : NULL;
}

const char *as_link_set_body(const struct as_call *c, struct as_payload *p, const uint8_t *body)
{
    if (p->kind == AS_FRAME_CALL)
        return set_call_body(p, body, c->rx_msg.body_len);
    as_frame_msg_set_body(&c->rx_msg, &p->msg, body);
    return NULL;
}
