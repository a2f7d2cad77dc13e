/* Messages of a link: OPEN with a request's tensors, DATA|MSG with a response's. */
#include "base/err.h"
#include "wire/frame_le.h"
#include "wire/names.h"

#define TABLE        (AS_FRAME_HEADER + AS_FRAME_FIXED) /* where the table starts in the frame */
#define TENSOR_FIXED 32u
#define PARAM_FIXED  16u
#define META_FIXED   8u
#define BODY_MAX     ((uint64_t)INT64_MAX)
#define FOLLOW_FRAME (AS_FRAME_MAX - AS_FRAME_HEADER) /* so that a whole frame needs no padding */

static_assert(TABLE == AS_FRAME_ALIGN, "the table starts on a frame boundary");
static_assert(TABLE + AS_FRAME_TABLE + AS_FRAME_ALIGN + AS_FRAME_INLINE <= AS_FRAME_MAX,
              "the largest table and inline body fit one frame");
static_assert(AS_FRAME_TENSORS <= AS_NAMES_MAX, "names are compared in one go");

uint64_t as_frame_body_len(const struct as_tensor *t, uint32_t n)
{
    uint64_t len = 0;

    for (uint32_t i = 0; i < n; i++) {
        if (len > BODY_MAX - AS_FRAME_ALIGN || t[i].nbytes > BODY_MAX - AS_FRAME_ALIGN - len)
            return UINT64_MAX;
        len = AS_ALIGN(len, AS_FRAME_ALIGN) + t[i].nbytes;
    }
    return len;
}

/* Bytes of the table; more than AS_FRAME_TABLE when something does not fit its field. Each addend
 * is checked before it is summed, so the sum cannot wrap within the counts that put_msg allows. */
static size_t table_len(const struct as_msg *msg, size_t id)
{
    const size_t over = AS_FRAME_TABLE + 1;
    size_t n = AS_ALIGN(id, 8);

    if (id > AS_FRAME_TABLE)
        return over;
    for (uint32_t i = 0; i < msg->n_tensors; i++) {
        AS_ASSERT(msg->tensors[i].ndim <= AS_MAX_DIMS);
        if (msg->tensors[i].name.n > UINT16_MAX)
            return over;
        n += TENSOR_FIXED + 8 * (size_t)msg->tensors[i].ndim + AS_ALIGN(msg->tensors[i].name.n, 8);
    }
    for (uint32_t i = 0; i < msg->n_params; i++) {
        const struct as_param *m = &msg->params[i];
        size_t str = m->type == AS_PARAM_STRING ? m->str.n : 0;

        if (m->name.n > UINT16_MAX || str > AS_FRAME_TABLE)
            return over;
        n += PARAM_FIXED + AS_ALIGN(m->name.n + str, 8);
    }
    for (uint32_t i = 0; i < msg->n_meta; i++) {
        const struct as_meta *m = &msg->meta[i];

        if (m->key.n > AS_FRAME_TABLE || m->value.n > AS_FRAME_TABLE)
            return over;
        n += META_FIXED + AS_ALIGN(m->key.n + m->value.n, 8);
    }
    return n;
}

/* `a` and behind it `b`, padded with zeros to 8; returns the end. */
static uint8_t *put_names(uint8_t *p, struct as_str a, struct as_str b)
{
    size_t n = AS_ALIGN(a.n + b.n, 8);

    if (!n)
        return p;
    put64(p + n - 8, 0);
    if (a.n)
        memcpy(p, a.p, a.n);
    if (b.n)
        memcpy(p + a.n, b.p, b.n);
    return p + n;
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
        p += TENSOR_FIXED;
        for (uint32_t d = 0; d < t->ndim; d++, p += 8)
            put64(p, (uint64_t)t->shape[d]);
        p = put_names(p, t->name, (struct as_str){0});
        at += t->nbytes;
    }
    return p;
}

static uint8_t *put_params(uint8_t *p, const struct as_param *m, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++, m++) {
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
        p = put_names(p + PARAM_FIXED, m->name, str);
    }
    return p;
}

static uint8_t *put_meta(uint8_t *p, const struct as_meta *m, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++, m++) {
        put32(p, (uint32_t)m->key.n);
        put32(p + 4, (uint32_t)m->value.n);
        p = put_names(p + META_FIXED, m->key, m->value);
    }
    return p;
}

/* All tensors copied to p, their padding included. */
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

/* Writes a body piece by piece: into the room that the message's own frame has for it, or, when
 * that is none, into as many DATA frames as it takes. */
struct pieces {
    struct as_outq *q;
    uint64_t stream;
    uint64_t left; /* of the body */
    uint64_t room; /* of the current frame */
    size_t pad;    /* behind the current frame */
};

static const uint8_t zeros[AS_FRAME_ALIGN];

static void next_frame(struct pieces *w)
{
    uint32_t n = (uint32_t)AS_MIN(w->left, (uint64_t)FOLLOW_FRAME);

    put_header(as_outq_room(w->q, AS_FRAME_HEADER), AS_FRAME_DATA,
               n == w->left ? AS_FRAME_F_END : 0, w->stream, n);
    w->room = n;
    w->pad = AS_ALIGN(AS_FRAME_HEADER + (size_t)n, AS_FRAME_ALIGN) - AS_FRAME_HEADER - n;
}

static void put_piece(struct pieces *w, const uint8_t *p, uint64_t n, struct as_blob *owner)
{
    while (n) {
        size_t k;

        if (!w->room)
            next_frame(w);
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
            as_outq_copy(w->q, zeros, w->pad);
    }
}

static void put_pieces(struct pieces *w, const struct as_msg *msg, struct as_blob *owner)
{
    uint64_t total = w->left;

    for (uint32_t i = 0; i < msg->n_tensors; i++) {
        const struct as_tensor *t = &msg->tensors[i];
        uint64_t at = total - w->left;

        if (at < total)
            put_piece(w, zeros, AS_ALIGN(at, AS_FRAME_ALIGN) - at, NULL);
        put_piece(w, t->data, t->nbytes, t->nbytes > AS_COPY_MAX ? owner : NULL);
    }
    AS_ASSERT(!w->left);
}

/* Header, fixed part and table at p, which has `head` bytes (a multiple of 64). */
static void put_head(uint8_t *p, size_t head, enum as_frame_type type, uint64_t stream,
                     const struct as_frame_msg *fixed, const struct as_msg *msg, size_t table,
                     uint64_t body)
{
    bool open = type == AS_FRAME_OPEN, inside = body <= AS_FRAME_INLINE;
    struct as_str id = open ? msg->id : (struct as_str){0};
    size_t end = body && inside ? head + (size_t)body : TABLE + table;
    unsigned flags = (open ? 0 : AS_FRAME_F_MSG) | (inside ? AS_FRAME_F_END : 0);

    memset(p + head - AS_FRAME_ALIGN, 0, AS_FRAME_ALIGN);
    put_header(p, (uint8_t)type, (uint8_t)flags, stream, (uint32_t)(end - AS_FRAME_HEADER));
    put64(p + 16,
          open ? (uint64_t)fixed->target << 32 | (uint64_t)fixed->priority << 8 | fixed->kind : 0);
    put64(p + 24, open ? fixed->timeout : fixed->service);
    put64(p + 32, body);
    put64(p + 40, msg->n_tensors | (uint64_t)msg->n_params << 32);
    put64(p + 48, msg->n_meta | (uint64_t)id.n << 32);
    put64(p + 56, table);
    p = put_tensors(p + TABLE, msg->tensors, msg->n_tensors);
    p = put_params(p, msg->params, msg->n_params);
    p = put_meta(p, msg->meta, msg->n_meta);
    put_names(p, id, (struct as_str){0});
}

/* A body that is not copied in one go: it has pieces of `owner`, or frames of its own. */
__attribute__((noinline)) static void put_large(struct as_outq *q, uint64_t stream,
                                                const struct as_msg *msg, uint64_t body,
                                                struct as_blob *owner)
{
    struct pieces w = {.q = q, .stream = stream, .left = body};

    if (body <= AS_FRAME_INLINE) {
        w.room = body;
        w.pad = AS_ALIGN((size_t)body, AS_FRAME_ALIGN) - (size_t)body;
    }
    put_pieces(&w, msg, owner);
}

static bool describable(const struct as_msg *msg, uint64_t body)
{
    return msg->n_tensors <= AS_FRAME_TENSORS && msg->n_params <= AS_FRAME_PARAMS &&
           msg->n_meta <= AS_FRAME_PARAMS && body <= BODY_MAX;
}

bool as_frame_msg_fits(const struct as_msg *msg)
{
    return describable(msg, as_frame_body_len(msg->tensors, msg->n_tensors)) &&
           table_len(msg, msg->id.n) <= AS_FRAME_TABLE;
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
    if (!describable(msg, body))
        return AS_ETOOBIG;
    table = table_len(msg, type == AS_FRAME_OPEN ? msg->id.n : 0);
    if (table > AS_FRAME_TABLE)
        return AS_ETOOBIG;
    head = AS_ALIGN(TABLE + table, AS_FRAME_ALIGN);
    p = as_outq_room(q, head + (copy ? AS_ALIGN((size_t)body, AS_FRAME_ALIGN) : 0));
    put_head(p, head, type, stream, fixed, msg, table, body);
    if (copy)
        put_body(p + head, msg);
    else
        put_large(q, stream, msg, body, owner);
    return 0;
}

/* Walks a table: what is left of it, and why it was refused. */
struct walk {
    const uint8_t *p;
    size_t n;
    const char *why;
};

static bool bad(struct walk *w, const char *why)
{
    w->why = why;
    return false;
}

/* The next `n` bytes of the table, rounded up to 8, or NULL. */
static const uint8_t *take(struct walk *w, size_t n)
{
    const uint8_t *p = w->p;

    n = AS_ALIGN(n, 8);
    if (n > w->n) {
        w->why = "table: cut short";
        return NULL;
    }
    w->p += n;
    w->n -= n;
    return p;
}

/* `end`: where the previous tensor ends in the body; advances. */
static bool get_tensor(struct walk *w, struct as_tensor *t, uint64_t *end)
{
    const uint8_t *r = take(w, TENSOR_FIXED), *names;
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
        return bad(w, "tensor: its place is not the body, or reserved bits are set");
    if (t->dtype == AS_DT_INVALID || t->dtype >= AS_DT_COUNT)
        return bad(w, "tensor: unknown datatype");
    if (t->ndim > AS_MAX_DIMS)
        return bad(w, "tensor: too many dimensions");
    names = take(w, 8 * (size_t)t->ndim + t->name.n);
    if (!names)
        return false;
    t->shape = (const int64_t *)(const void *)names;
    t->name.p = (const char *)names + 8 * (size_t)t->ndim;
    if (!t->name.n || !as_names_utf8(t->name))
        return bad(w, "tensor: its name is empty or not UTF-8");
    if (as_tensor_elements(t->dtype, t->shape, t->ndim, &elements))
        return bad(w, "tensor: bad shape");
    size = as_dtype_size(t->dtype);
    if (size ? len != elements * size : len < elements * 4 || (!elements && len))
        return bad(w, "tensor: its length does not fit shape and datatype");
    if (*end > BODY_MAX - AS_FRAME_ALIGN || offset != AS_ALIGN(*end, AS_FRAME_ALIGN))
        return bad(w, "tensor: its offset is not the next multiple of 64");
    if (len > BODY_MAX - offset)
        return bad(w, "tensor: its end is out of range");
    *end = offset + len;
    t->data = (const uint8_t *)(uintptr_t)offset;
    t->nbytes = (size_t)len;
    return true;
}

static bool get_param(struct walk *w, struct as_param *m)
{
    const uint8_t *r = take(w, PARAM_FIXED);
    uint64_t v;
    size_t str;

    if (!r)
        return false;
    m->name.n = get16(r);
    m->type = (enum as_param_type)r[2];
    str = get32(r + 4);
    v = get64(r + 8);
    if (r[3] || m->type < AS_PARAM_BOOL || m->type > AS_PARAM_UINT64)
        return bad(w, "parameter: unknown type");
    if ((m->type == AS_PARAM_STRING ? v != 0 : str != 0) || (m->type == AS_PARAM_BOOL && v > 1))
        return bad(w, "parameter: its value does not fit its type");
    r = take(w, m->name.n + str);
    if (!r)
        return false;
    m->name.p = (const char *)r;
    m->u64 = v;
    if (m->type == AS_PARAM_STRING)
        m->str = (struct as_str){(const char *)r + m->name.n, str};
    else if (m->type == AS_PARAM_BOOL)
        m->b = v;
    if (!as_names_utf8(m->name) || (m->type == AS_PARAM_STRING && !as_names_utf8(m->str)))
        return bad(w, "parameter: name or text is not UTF-8");
    return true;
}

static bool get_meta(struct walk *w, struct as_meta *m)
{
    const uint8_t *r = take(w, META_FIXED);

    if (!r)
        return false;
    m->key.n = get32(r);
    m->value.n = get32(r + 4);
    r = take(w, m->key.n + m->value.n);
    if (!r)
        return false;
    m->key.p = (const char *)r;
    m->value.p = (const char *)r + m->key.n;
    return true;
}

/* The fixed part; *ret_id: bytes of the request id. */
static bool get_fixed(const struct as_frame *f, struct as_frame_msg *m, uint32_t *ret_id,
                      struct walk *w)
{
    const uint8_t *p = f->p - AS_FRAME_HEADER; /* offsets as in the specification */
    bool open = f->type == AS_FRAME_OPEN;
    uint32_t table;

    if (!open && !(f->type == AS_FRAME_DATA && f->flags & AS_FRAME_F_MSG))
        return bad(w, "not a message");
    if (f->n < AS_FRAME_FIXED)
        return bad(w, "message: cut short");
    *m = (struct as_frame_msg){.kind = p[16], .priority = p[17], .target = get32(p + 20)};
    if (get16(p + 18) || get32(p + 60))
        return bad(w, "message: reserved bits are set");
    if (open ? m->kind != AS_FRAME_TENSOR : m->kind || m->priority || m->target)
        return bad(w, "message: its kind is not served by this version");
    *(open ? &m->timeout : &m->service) = get64(p + 24);
    m->body_len = get64(p + 32);
    m->n_tensors = get32(p + 40);
    m->n_params = get32(p + 44);
    m->n_meta = get32(p + 48);
    *ret_id = get32(p + 52);
    table = get32(p + 56);
    if (table > AS_FRAME_TABLE || table % 8 || table > f->n - AS_FRAME_FIXED)
        return bad(w, "table: its length is wrong");
    if (m->n_tensors > AS_FRAME_TENSORS || m->n_params > AS_FRAME_PARAMS ||
        m->n_meta > AS_FRAME_PARAMS || (!open && *ret_id))
        return bad(w, "message: a count is over its limit");
    if ((uint64_t)m->n_tensors * TENSOR_FIXED + (uint64_t)m->n_params * PARAM_FIXED +
            (uint64_t)m->n_meta * META_FIXED >
        table)
        return bad(w, "table: cut short");
    m->table = (struct as_str){(const char *)p + TABLE, table};
    return true;
}

/* Where the inline body is, and that the frame ends where it must. */
static bool get_body(const struct as_frame *f, struct as_frame_msg *m, struct walk *w)
{
    size_t head = AS_ALIGN(TABLE + m->table.n, AS_FRAME_ALIGN) - AS_FRAME_HEADER;

    if (m->body_len > BODY_MAX)
        return bad(w, "body: its length is out of range");
    if (m->body_len > AS_FRAME_INLINE || !m->body_len) {
        if (f->n != AS_FRAME_FIXED + m->table.n)
            return bad(w, "message: bytes behind the table");
        if (m->body_len && f->flags & AS_FRAME_F_END)
            return bad(w, "message: ends before its body");
        return true;
    }
    if (f->n != head + m->body_len)
        return bad(w, "body: its length is not what the frame holds");
    m->body = f->p + head;
    return true;
}

/* One allocation for the three arrays. */
static int alloc(const struct as_frame_msg *m, struct as_arena *a, struct as_tensor **ret_t,
                 struct as_param **ret_p, struct as_meta **ret_m)
{
    size_t nt = m->n_tensors * sizeof(**ret_t), np = m->n_params * sizeof(**ret_p);
    size_t total = nt + np + m->n_meta * sizeof(**ret_m);
    uint8_t *p = total ? as_arena_alloc(a, total, 8) : NULL;

    if (total && !p)
        return AS_ENOMEM;
    *ret_t = (struct as_tensor *)(void *)p;
    *ret_p = (struct as_param *)(void *)(p ? p + nt : NULL);
    *ret_m = (struct as_meta *)(void *)(p ? p + nt + np : NULL);
    return 0;
}

static bool get_table(struct walk *w, const struct as_frame_msg *m, uint32_t id,
                      struct as_tensor *t, struct as_param *p, struct as_meta *meta)
{
    uint64_t end = 0;

    for (uint32_t i = 0; i < m->n_tensors; i++) {
        if (!get_tensor(w, &t[i], &end))
            return false;
    }
    if (end != m->body_len)
        return bad(w, "body: its length is not that of the tensors");
    if (as_names_twice(t, sizeof(*t), m->n_tensors))
        return bad(w, "tensor: a name is given twice");
    for (uint32_t i = 0; i < m->n_params; i++) {
        if (!get_param(w, &p[i]))
            return false;
    }
    for (uint32_t i = 0; i < m->n_meta; i++) {
        if (!get_meta(w, &meta[i]))
            return false;
    }
    if (w->n != AS_ALIGN((size_t)id, 8))
        return bad(w, "table: its length is not that of its entries");
    return as_names_utf8((struct as_str){(const char *)w->p, id}) || bad(w, "id: not UTF-8");
}

int as_frame_msg_open(const struct as_frame *f, struct as_arena *a, struct as_frame_msg *ret_m,
                      struct as_msg *ret_msg, const char **ret_why)
{
    struct walk w = {0};
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
    err = alloc(&m, a, &t, &p, &meta);
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
        as_frame_msg_place(&m, &msg, m.body);
    *ret_m = m;
    *ret_msg = msg;
    return 0;
}

void as_frame_msg_place(const struct as_frame_msg *m, struct as_msg *msg, const uint8_t *body)
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
