/* Encoding of messages: OPEN with the tensors of a request, DATA|MSG with those of a response. */
#include "base/err.h"
#include "wire/frame/frame_table.h"

#define FOLLOW_FRAME (AS_FRAME_MAX - AS_FRAME_HEADER) /* a frame of this size needs no padding */

static_assert(AS_MSG_TABLE == AS_FRAME_ALIGN, "the table starts on a frame boundary");
static_assert(AS_MSG_TABLE + AS_FRAME_TABLE + AS_FRAME_ALIGN + AS_FRAME_INLINE <= AS_FRAME_MAX,
              "the largest table and inline body fit one frame");

uint64_t as_frame_body_len(const struct as_tensor *t, uint32_t n)
{
    uint64_t len = 0;

    for (uint32_t i = 0; i < n; i++) {
        if (len > AS_MSG_BODY_MAX - AS_FRAME_ALIGN ||
            t[i].nbytes > AS_MSG_BODY_MAX - AS_FRAME_ALIGN - len)
            return UINT64_MAX;
        len = AS_ALIGN(len, AS_FRAME_ALIGN) + t[i].nbytes;
    }
    return len;
}

/* The size of a parameter's name and text; more than AS_FRAME_TABLE if they do not fit. */
static size_t param_text(const struct as_param *m)
{
    size_t str = m->type == AS_PARAM_STRING ? m->str.n : 0;

    return m->name.n > UINT16_MAX || str > AS_FRAME_TABLE ? AS_FRAME_TABLE + 1
                                                          : AS_ALIGN(m->name.n + str, 8);
}

/* The size of the table; more than AS_FRAME_TABLE if something does not fit. Each addend is limited
 * before it is added, so the sum cannot overflow within the counts that put_msg allows. */
static size_t table_len(const struct as_msg *msg, const struct as_tensor_params *tensor_params,
                        size_t id)
{
    const size_t over = AS_FRAME_TABLE + 1;
    size_t n = AS_ALIGN(id, 8);

    if (id > AS_FRAME_TABLE)
        return over;
    for (uint32_t i = 0; i < msg->n_tensors; i++) {
        AS_ASSERT(msg->tensors[i].ndim <= AS_MAX_DIMS);
        if (msg->tensors[i].name.n > UINT16_MAX)
            return over;
        n += AS_MSG_TENSOR + 8 * (size_t)msg->tensors[i].ndim + AS_ALIGN(msg->tensors[i].name.n, 8);
    }
    for (uint32_t i = 0; i < msg->n_params; i++)
        n += AS_MSG_PARAM + param_text(&msg->params[i]);
    for (uint32_t i = 0; i < tensor_params->n; i++)
        n += AS_MSG_TENSOR_PARAM + param_text(&tensor_params->at[i].param);
    return n + meta_len(msg->meta, msg->n_meta);
}

static uint8_t *put_tensors(uint8_t *p, const struct as_tensor *t, uint32_t n)
{
    uint64_t at = 0;

    for (uint32_t i = 0; i < n; i++, t++) {
        at = AS_ALIGN(at, AS_FRAME_ALIGN);
        put32(p, (uint32_t)t->name.n | (uint32_t)t->dtype << 16 | t->ndim << 24);
        put32(p + 4, 0);
        put64(p + 8, 0);
        put64(p + 16, at);
        put64(p + 24, t->nbytes);
        p += AS_MSG_TENSOR;
        for (uint32_t d = 0; d < t->ndim; d++, p += 8)
            put64(p, (uint64_t)t->shape[d]);
        p = put_names(p, t->name, (struct as_str){0});
        at += t->nbytes;
    }
    return p;
}

/* Writes the fixed part of a parameter; returns its text. */
static struct as_str put_param(uint8_t *p, const struct as_param *m)
{
    struct as_str str = {0};
    uint64_t v = 0;

    if (m->type == AS_PARAM_STRING)
        str = m->str;
    else if (m->type == AS_PARAM_BOOL)
        v = m->b;
    else
        v = m->u64;
    put32(p, (uint32_t)m->name.n | (uint32_t)m->type << 16);
    put32(p + 4, (uint32_t)str.n);
    put64(p + 8, v);
    return str;
}

static uint8_t *put_params(uint8_t *p, const struct as_param *m, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++, m++) {
        struct as_str str = put_param(p, m);

        p = put_names(p + AS_MSG_PARAM, m->name, str);
    }
    return p;
}

static uint8_t *put_tensor_params(uint8_t *p, const struct as_tensor_params *tensor_params)
{
    for (uint32_t i = 0; i < tensor_params->n; i++) {
        struct as_str str = put_param(p, &tensor_params->at[i].param);

        put64(p + AS_MSG_PARAM, tensor_params->at[i].tensor);
        p = put_names(p + AS_MSG_TENSOR_PARAM, tensor_params->at[i].param.name, str);
    }
    return p;
}

/* Copies all tensors to p, with their padding. */
static void put_body(uint8_t *p, const struct as_msg *msg)
{
    for (uint32_t i = 0; i < msg->n_tensors; i++) {
        size_t n = msg->tensors[i].nbytes, room = AS_ALIGN(n, AS_FRAME_ALIGN);

        if (!n)
            continue;
        memset(p + room - AS_FRAME_ALIGN, 0, AS_FRAME_ALIGN);
        memcpy(p, msg->tensors[i].data, n);
        p += room;
    }
}

const uint8_t as_frame_zeros[AS_FRAME_ALIGN];

static void begin_data_frame(struct as_frame_body_writer *w)
{
    uint32_t n = (uint32_t)AS_MIN(w->left, (uint64_t)FOLLOW_FRAME);

    put_header(as_outq_alloc(w->q, AS_FRAME_HEADER), AS_FRAME_DATA,
               n == w->left && !w->more ? AS_FRAME_F_END : 0, w->stream, n);
    w->room = n;
    w->pad = AS_ALIGN(AS_FRAME_HEADER + (size_t)n, AS_FRAME_ALIGN) - AS_FRAME_HEADER - n;
}

void as_frame_body_put(struct as_frame_body_writer *w, const uint8_t *p, uint64_t n,
                       struct as_blob *owner)
{
    while (n) {
        size_t k;

        if (!w->room)
            begin_data_frame(w);
        k = (size_t)AS_MIN(n, w->room);
        if (owner)
            as_outq_ref(w->q, owner, p, k);
        else
            as_outq_copy(w->q, p, k);
        p += k;
        n -= k;
        w->room -= k;
        w->left -= k;
        if (!w->room)
            as_outq_copy(w->q, as_frame_zeros, w->pad);
    }
}

static void put_tensor_data(struct as_frame_body_writer *w, const struct as_msg *msg,
                            struct as_blob *owner)
{
    uint64_t total = w->left;

    for (uint32_t i = 0; i < msg->n_tensors; i++) {
        const struct as_tensor *t = &msg->tensors[i];
        uint64_t at = total - w->left;

        if (at < total)
            as_frame_body_put(w, as_frame_zeros, AS_ALIGN(at, AS_FRAME_ALIGN) - at, NULL);
        as_frame_body_put(w, t->data, t->nbytes, t->nbytes > AS_COPY_MAX ? owner : NULL);
    }
    AS_ASSERT(!w->left);
}

/* Writes header, fixed part and table to p, which has room for `head` bytes (a multiple of 64). */
static void put_message_head(uint8_t *p, size_t head, enum as_frame_type type, uint64_t stream,
                             const struct as_frame_msg *fixed, const struct as_msg *msg,
                             size_t table, uint64_t body)
{
    bool open = type == AS_FRAME_OPEN, inside = body <= AS_FRAME_INLINE;
    struct as_str id = open || fixed->input ? msg->id : (struct as_str){0};
    size_t end = body && inside ? head + (size_t)body : AS_MSG_TABLE + table;
    unsigned flags = (open ? 0 : AS_FRAME_F_MSG) | (inside && !fixed->more ? AS_FRAME_F_END : 0);

    memset(p + head - AS_FRAME_ALIGN, 0, AS_FRAME_ALIGN);
    put_header(p, (uint8_t)type, (uint8_t)flags, stream, (uint32_t)(end - AS_FRAME_HEADER));
    put64(p + 16, open
                      ? (uint64_t)fixed->target << 32 | (uint64_t)fixed->priority << 8 | fixed->kind
                      : (uint64_t)fixed->ended << 32);
    put64(p + 24, open ? fixed->timeout : fixed->service);
    put64(p + 32, body);
    put64(p + 40, msg->n_tensors | (uint64_t)msg->n_params << 32);
    put64(p + 48, msg->n_meta | (uint64_t)id.n << 32);
    put64(p + 56, table | (uint64_t)fixed->tensor_params.n << 32);
    p = put_tensors(p + AS_MSG_TABLE, msg->tensors, msg->n_tensors);
    p = put_params(p, msg->params, msg->n_params);
    p = put_tensor_params(p, &fixed->tensor_params);
    p = put_meta(p, msg->meta, msg->n_meta);
    put_names(p, id, (struct as_str){0});
}

/* Writes a body that is not copied in one go: it references `owner`, or has frames of its own. */
__attribute__((noinline)) static void put_large(struct as_outq *q, uint64_t stream,
                                                const struct as_msg *msg, uint64_t body, bool more,
                                                struct as_blob *owner)
{
    struct as_frame_body_writer w = as_frame_body_writer(q, stream, body, more);

    put_tensor_data(&w, msg, owner);
}

static bool is_within_limits(const struct as_msg *msg, const struct as_tensor_params *tensor_params,
                             uint64_t body)
{
    return msg->n_tensors <= AS_FRAME_TENSORS && msg->n_params <= AS_FRAME_PARAMS &&
           tensor_params->n <= AS_FRAME_PARAMS - msg->n_params && msg->n_meta <= AS_FRAME_PARAMS &&
           body <= AS_MSG_BODY_MAX;
}

uint64_t as_frame_msg_cost(const struct as_msg *msg, const struct as_tensor_params *params, bool id)
{
    return table_len(msg, params, id ? msg->id.n : 0) +
           as_frame_body_len(msg->tensors, msg->n_tensors);
}

int as_frame_put_msg(struct as_outq *q, enum as_frame_type type, uint64_t stream,
                     const struct as_frame_msg *fixed, const struct as_msg *msg,
                     struct as_blob *owner)
{
    uint64_t body = as_frame_body_len(msg->tensors, msg->n_tensors);
    bool copy = body <= (owner ? AS_COPY_MAX : AS_FRAME_INLINE);
    size_t table, head;
    uint8_t *p;

    AS_ASSERT(type == AS_FRAME_OPEN || type == AS_FRAME_DATA);
    if (!is_within_limits(msg, &fixed->tensor_params, body))
        return AS_ETOOBIG;
    table = table_len(msg, &fixed->tensor_params,
                      type == AS_FRAME_OPEN || fixed->input ? msg->id.n : 0);
    if (table > AS_FRAME_TABLE)
        return AS_ETOOBIG;
    head = AS_ALIGN(AS_MSG_TABLE + table, AS_FRAME_ALIGN);
    p = as_outq_alloc(q, head + (copy ? AS_ALIGN((size_t)body, AS_FRAME_ALIGN) : 0));
    put_message_head(p, head, type, stream, fixed, msg, table, body);
    if (copy)
        put_body(p + head, msg);
    else
        put_large(q, stream, msg, body, fixed->more, owner);
    return 0;
}
