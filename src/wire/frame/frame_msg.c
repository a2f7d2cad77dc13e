/* Decoding of messages: nothing of the input is trusted before it is checked here. */
#include "base/err.h"
#include "wire/frame/frame_table.h"
#include "wire/name_check.h"

static_assert(AS_FRAME_TENSORS <= AS_NAME_CHECK_MAX, "names are compared in one go");

/* Reads a tensor. *end: where the previous tensor ends in the body; it is set to the end of this
 * one. */
static bool get_tensor(struct table_reader *w, struct as_tensor *t, uint64_t *end)
{
    const uint8_t *r = take_bytes(w, AS_MSG_TENSOR), *names;
    uint64_t elements, offset, len;
    size_t size;

    if (!r)
        return false;
    t->name.n = get16(r);
    t->dtype = (enum as_dtype)r[2];
    t->ndim = r[3];
    offset = get64(r + 16);
    len = get64(r + 24);
    if (get32(r + 4) || get64(r + 8))
        return reject(w, "tensor: its place is not the body, or reserved bits are set");
    if (t->dtype == AS_DT_INVALID || t->dtype >= AS_DT_COUNT)
        return reject(w, "tensor: unknown datatype");
    if (t->ndim > AS_MAX_DIMS)
        return reject(w, "tensor: too many dimensions");
    names = take_bytes(w, 8 * (size_t)t->ndim + t->name.n);
    if (!names)
        return false;
    t->shape = (const int64_t *)(const void *)names;
    t->name.p = (const char *)names + 8 * (size_t)t->ndim;
    if (!t->name.n || !as_name_check_utf8(t->name))
        return reject(w, "tensor: its name is empty or not UTF-8");
    if (as_tensor_elements(t->dtype, t->shape, t->ndim, &elements))
        return reject(w, "tensor: bad shape");
    size = as_dtype_size(t->dtype);
    if (size ? len != elements * size : len < elements * 4 || (!elements && len))
        return reject(w, "tensor: its length does not fit shape and datatype");
    if (*end > AS_MSG_BODY_MAX - AS_FRAME_ALIGN || offset != AS_ALIGN(*end, AS_FRAME_ALIGN))
        return reject(w, "tensor: its offset is not the next multiple of 64");
    if (len > AS_MSG_BODY_MAX - offset)
        return reject(w, "tensor: its end is out of range");
    *end = offset + len;
    t->data = (const uint8_t *)(uintptr_t)offset;
    t->nbytes = (size_t)len;
    return true;
}

/* Reads a parameter. Its fixed part is at r (NULL: the table is too short); name and text follow in
 * the table. */
static bool get_param(struct table_reader *w, struct as_param *m, const uint8_t *r)
{
    uint64_t v;
    size_t str;

    if (!r)
        return false;
    m->name.n = get16(r);
    m->type = (enum as_param_type)r[2];
    str = get32(r + 4);
    v = get64(r + 8);
    if (r[3] || m->type < AS_PARAM_BOOL || m->type > AS_PARAM_UINT64)
        return reject(w, "parameter: unknown type");
    if ((m->type == AS_PARAM_STRING ? v != 0 : str != 0) || (m->type == AS_PARAM_BOOL && v > 1))
        return reject(w, "parameter: its value does not fit its type");
    r = take_bytes(w, m->name.n + str);
    if (!r)
        return false;
    m->name.p = (const char *)r;
    m->u64 = v;
    if (m->type == AS_PARAM_STRING)
        m->str = (struct as_str){(const char *)r + m->name.n, str};
    else if (m->type == AS_PARAM_BOOL)
        m->b = v;
    if (!as_name_check_utf8(m->name) || (m->type == AS_PARAM_STRING && !as_name_check_utf8(m->str)))
        return reject(w, "parameter: name or text is not UTF-8");
    return true;
}

static bool get_tensor_params(struct table_reader *w, const struct as_frame_msg *m,
                              struct as_tensor_param *p)
{
    for (uint32_t i = 0; i < m->tensor_params.n; i++) {
        const uint8_t *r = take_bytes(w, AS_MSG_TENSOR_PARAM);

        if (!get_param(w, &p[i].param, r))
            return false;
        p[i].tensor = get32(r + AS_MSG_PARAM);
        if (get32(r + AS_MSG_PARAM + 4))
            return reject(w, "parameter of a tensor: reserved bits are set");
    }
    return as_tensor_params_ordered(&m->tensor_params, m->n_tensors) ||
           reject(w, "parameter of a tensor: no such tensor, or not in the tensors' order");
}

/* Reads the fixed part; *ret_id: the length of the request id. */
static bool get_fixed(const struct as_frame *f, struct as_frame_msg *m, uint32_t *ret_id,
                      struct table_reader *w)
{
    const uint8_t *p = f->p - AS_FRAME_HEADER; /* offsets as in the specification */
    bool open = f->type == AS_FRAME_OPEN;
    uint32_t table;

    if (!open && !(f->type == AS_FRAME_DATA && f->flags & AS_FRAME_F_MSG))
        return reject(w, "not a message");
    if (f->n < AS_FRAME_FIXED)
        return reject(w, "message: cut short");
    *m = (struct as_frame_msg){.kind = p[16], .priority = p[17]};
    *(open ? &m->target : &m->ended) = get32(p + 20);
    if (get16(p + 18))
        return reject(w, "message: reserved bits are set");
    if (open ? m->kind != AS_FRAME_TENSOR : m->kind || m->priority)
        return reject(w, "message: its kind is not served by this version");
    *(open ? &m->timeout : &m->service) = get64(p + 24);
    m->body_len = get64(p + 32);
    m->n_tensors = get32(p + 40);
    m->n_params = get32(p + 44);
    m->n_meta = get32(p + 48);
    m->tensor_params.n = get32(p + 60);
    *ret_id = get32(p + 52);
    table = get32(p + 56);
    if (table > AS_FRAME_TABLE || table % 8 || table > f->n - AS_FRAME_FIXED)
        return reject(w, "table: its length is wrong");
    if (m->n_tensors > AS_FRAME_TENSORS || m->n_params > AS_FRAME_PARAMS ||
        m->tensor_params.n > AS_FRAME_PARAMS - m->n_params || m->n_meta > AS_FRAME_PARAMS)
        return reject(w, "message: a count is over its limit");
    if ((uint64_t)m->n_tensors * AS_MSG_TENSOR + (uint64_t)m->n_params * AS_MSG_PARAM +
            (uint64_t)m->tensor_params.n * AS_MSG_TENSOR_PARAM + (uint64_t)m->n_meta * AS_MSG_META >
        table)
        return reject(w, "table: cut short");
    m->table = (struct as_str){(const char *)p + AS_MSG_TABLE, table};
    return true;
}

/* Finds the inline body, and checks that the frame ends where it must. */
static bool get_body(const struct as_frame *f, struct as_frame_msg *m, struct table_reader *w)
{
    size_t head = AS_ALIGN(AS_MSG_TABLE + m->table.n, AS_FRAME_ALIGN) - AS_FRAME_HEADER;

    if (m->body_len > AS_MSG_BODY_MAX)
        return reject(w, "body: its length is out of range");
    if (m->body_len > AS_FRAME_INLINE || !m->body_len) {
        if (f->n != AS_FRAME_FIXED + m->table.n)
            return reject(w, "message: bytes behind the table");
        if (m->body_len && f->flags & AS_FRAME_F_END)
            return reject(w, "message: ends before its body");
        return true;
    }
    if (f->n != head + m->body_len)
        return reject(w, "body: its length is not what the frame holds");
    m->body = f->p + head;
    return true;
}

/* One allocation for the four arrays. */
static int alloc_arrays(struct as_frame_msg *m, struct as_arena *a, struct as_tensor **ret_t,
                        struct as_param **ret_p, struct as_meta **ret_m)
{
    size_t nt = m->n_tensors * sizeof(**ret_t), np = m->n_params * sizeof(**ret_p);
    size_t nm = m->n_meta * sizeof(**ret_m);
    size_t total = nt + np + nm + m->tensor_params.n * sizeof(*m->tensor_params.at);
    uint8_t *p = as_arena_alloc(a, AS_MAX(total, 8), 8); /* > 0, so that p is not NULL */

    if (!p)
        return AS_ENOMEM;
    *ret_t = (struct as_tensor *)(void *)p;
    *ret_p = (struct as_param *)(void *)(p + nt);
    *ret_m = (struct as_meta *)(void *)(p + nt + np);
    m->tensor_params.at = (struct as_tensor_param *)(void *)(p + nt + np + nm);
    return 0;
}

static bool get_table(struct table_reader *w, const struct as_frame_msg *m, uint32_t id,
                      struct as_tensor *t, struct as_param *p, struct as_meta *meta)
{
    uint64_t end = 0;

    for (uint32_t i = 0; i < m->n_tensors; i++) {
        if (!get_tensor(w, &t[i], &end))
            return false;
    }
    if (end != m->body_len)
        return reject(w, "body: its length is not that of the tensors");
    if (as_name_check_duplicate(t, sizeof(*t), m->n_tensors))
        return reject(w, "tensor: a name is given twice");
    for (uint32_t i = 0; i < m->n_params; i++) {
        if (!get_param(w, &p[i], take_bytes(w, AS_MSG_PARAM)))
            return false;
    }
    if (m->tensor_params.n &&
        !get_tensor_params(w, m, (struct as_tensor_param *)(uintptr_t)m->tensor_params.at))
        return false;
    for (uint32_t i = 0; i < m->n_meta; i++) {
        if (!get_meta(w, &meta[i]))
            return false;
    }
    if (w->n != AS_ALIGN((size_t)id, 8))
        return reject(w, "table: its length is not that of its entries");
    return as_name_check_utf8((struct as_str){(const char *)w->p, id}) ||
           reject(w, "id: not UTF-8");
}

int as_frame_get_msg(const struct as_frame *f, struct as_arena *a, struct as_frame_msg *ret_m,
                     struct as_msg *ret_msg, const char **ret_why)
{
    struct table_reader w = {0};
    struct as_frame_msg m;
    struct as_msg msg;
    struct as_tensor *t;
    struct as_param *p;
    struct as_meta *meta;
    uint32_t id;
    int err;

    *ret_why = "";
    if (!get_fixed(f, &m, &id, &w) || !get_body(f, &m, &w)) {
        *ret_why = w.why;
        return AS_EPROTO;
    }
    err = alloc_arrays(&m, a, &t, &p, &meta);
    if (err)
        return err;
    w.p = (const uint8_t *)m.table.p;
    w.n = m.table.n;
    if (!get_table(&w, &m, id, t, p, meta)) {
        *ret_why = w.why;
        return AS_EPROTO;
    }
    m.id = (struct as_str){(const char *)w.p, id};
    msg = (struct as_msg){m.id, t, p, meta, m.n_tensors, m.n_params, m.n_meta};
    if (m.body)
        as_frame_msg_set_body(&m, &msg, m.body);
    *ret_m = m;
    *ret_msg = msg;
    return 0;
}

void as_frame_msg_set_body(const struct as_frame_msg *m, struct as_msg *msg, const uint8_t *body)
{
    struct as_tensor *t = (struct as_tensor *)(uintptr_t)msg->tensors;
    uint64_t at = 0;

    for (uint32_t i = 0; i < msg->n_tensors; i++) {
        at = AS_ALIGN(at, AS_FRAME_ALIGN);
        t[i].data = body + at;
        at += t[i].nbytes;
    }
    AS_ASSERT(at == m->body_len);
}
