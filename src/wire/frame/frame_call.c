/* Calls: the head of OPEN and DATA of kind 3, TARGET, RESERVED and REPORT. */
#include "wire/frame/frame_call.h"

#include "base/err.h"
#include "base/utf8.h"
#include "wire/frame/body.h"
#include "wire/frame/frame_table.h"
#include "wire/name_check.h"

#define TARGET_FIXED 8u
#define REPORT_FIXED 8u

static_assert(REPORT_FIXED + AS_FRAME_REPORT_MAX <= AS_FRAME_MAX, "a report fits one frame");

static int refuse(const char **ret_why, const char *why)
{
    *ret_why = why;
    return AS_EPROTO;
}

/* Reads the fixed part; *ret_id, *ret_table: the lengths of the request id and of the table. */
static int get_fixed(const struct as_frame *f, struct as_frame_call *c, uint32_t *ret_id,
                     uint32_t *ret_table, const char **ret_why)
{
    const uint8_t *p = f->p - AS_FRAME_HEADER; /* offsets as in the specification */
    bool open = f->type == AS_FRAME_OPEN;

    if (!open && !(f->type == AS_FRAME_DATA && f->flags & AS_FRAME_F_MSG))
        return refuse(ret_why, "not a message");
    if (f->n < AS_FRAME_FIXED)
        return refuse(ret_why, "message: cut short");
    *c = (struct as_frame_call){.priority = p[17],
                                .parent = get64(p + 40),
                                .n_meta = get32(p + 48),
                                .flags = get32(p + 60),
                                .body_len = get64(p + 32)};
    *(open ? &c->target : &c->ended) = get32(p + 20);
    *(open ? &c->timeout : &c->service) = get64(p + 24);
    *ret_id = get32(p + 52);
    *ret_table = get32(p + 56);
    if (p[16] != AS_FRAME_CALL)
        return refuse(ret_why, "call: its kind is another");
    if (get16(p + 18) || c->flags & ~(AS_CALL_F_STREAM | AS_CALL_F_BEYOND | AS_CALL_F_EVERY |
                                      AS_CALL_F_INPUTS | AS_CALL_F_RESERVE | AS_CALL_F_USE))
        return refuse(ret_why, "call: reserved bits are set");
    if (!open && (c->priority || c->parent || c->flags || *ret_id))
        return refuse(ret_why, "call: an answer has fields of a request");
    if (c->parent && !(c->parent & 1))
        return refuse(ret_why, "call: its parent is not a request of the link");
    if (*ret_table > AS_FRAME_TABLE || *ret_table % 8 || *ret_table > f->n - AS_FRAME_FIXED)
        return refuse(ret_why, "table: its length is wrong");
    if (c->n_meta > AS_FRAME_PARAMS)
        return refuse(ret_why, "message: a count is over its limit");
    if ((uint64_t)c->n_meta * AS_MSG_META > *ret_table)
        return refuse(ret_why, "table: cut short");
    if (c->body_len < AS_BODY_FIXED || c->body_len > AS_MSG_BODY_MAX)
        return refuse(ret_why, "body: its length is out of range");
    return 0;
}

/* Finds the inline body, and checks that the frame ends where it must. */
static int get_body(const struct as_frame *f, struct as_frame_call *c, uint32_t table,
                    const char **ret_why)
{
    size_t head = AS_ALIGN(AS_MSG_TABLE + (size_t)table, AS_FRAME_ALIGN) - AS_FRAME_HEADER;

    if (c->body_len > AS_FRAME_INLINE) {
        if (f->n != AS_FRAME_FIXED + table)
            return refuse(ret_why, "message: bytes behind the table");
        return f->flags & AS_FRAME_F_END ? refuse(ret_why, "message: ends before its body") : 0;
    }
    if (f->n != head + c->body_len)
        return refuse(ret_why, "body: its length is not what the frame holds");
    c->body = f->p + head;
    return 0;
}

bool as_frame_call_uses_slot(const struct as_frame *f)
{
    return f->type == AS_FRAME_OPEN && f->n >= AS_FRAME_FIXED && f->p[0] == AS_FRAME_CALL &&
           get32(f->p + 60 - AS_FRAME_HEADER) & AS_CALL_F_USE;
}

int as_frame_get_call(const struct as_frame *f, struct as_arena *a, struct as_frame_call *ret_c,
                      const char **ret_why)
{
    struct table_reader w = {.why = ""};
    struct as_meta *meta = NULL;
    struct as_frame_call c;
    uint32_t id, table;
    int err;

    *ret_why = "";
    err = get_fixed(f, &c, &id, &table, ret_why);
    if (!err)
        err = get_body(f, &c, table, ret_why);
    if (err)
        return err;
    if (c.n_meta) {
        meta = as_arena_alloc(a, c.n_meta * sizeof(*meta), _Alignof(struct as_meta));
        if (!meta)
            return AS_ENOMEM;
    }
    w.p = f->p + AS_FRAME_FIXED;
    w.n = table;
    for (uint32_t i = 0; i < c.n_meta; i++) {
        if (!get_meta(&w, &meta[i]))
            return refuse(ret_why, w.why);
    }
    if (w.n != AS_ALIGN((size_t)id, 8))
        return refuse(ret_why, "table: its length is not that of its entries");
    c.id = (struct as_str){(const char *)w.p, id};
    if (!as_name_check_utf8(c.id))
        return refuse(ret_why, "id: not UTF-8");
    c.meta = meta;
    c.cost = table + c.body_len;
    *ret_c = c;
    return 0;
}

static size_t table_len(const struct as_frame_call *c, bool open)
{
    struct as_str id = open ? c->id : (struct as_str){0};

    if (id.n > AS_FRAME_TABLE || c->n_meta > AS_FRAME_PARAMS)
        return AS_FRAME_TABLE + 1;
    return AS_ALIGN(id.n, 8) + meta_len(c->meta, c->n_meta);
}

uint64_t as_frame_call_cost(const struct as_frame_call *c, const struct as_body *body)
{
    uint64_t len = body ? as_body_len(body) : c->body_len;
    size_t table = table_len(c, true);

    return len > AS_MSG_BODY_MAX || table > AS_FRAME_TABLE ? UINT64_MAX : table + len;
}

static void put_slice(struct as_frame_body_writer *w, uint64_t total, struct as_str s,
                      struct as_blob *owner)
{
    uint64_t at = total - w->left;

    as_frame_body_put(w, as_frame_zeros, -at % AS_BODY_ALIGN, NULL);
    as_frame_body_put(w, (const uint8_t *)s.p, s.n, s.n > AS_COPY_MAX ? owner : NULL);
}

/* Writes a body that is not copied in one go: it references `owner`, or has frames of its own. */
static void put_large(struct as_outq *q, uint64_t stream, const struct as_frame_call *c,
                      const struct as_body *b, uint64_t len, struct as_blob *owner)
{
    struct as_frame_body_writer w = as_frame_body_writer(q, stream, len, c->more);
    /* the largest head: its counts and its method are limited */
    uint8_t head[AS_BODY_FIXED + 8 * (AS_BODY_BUFFERS + AS_BODY_PARTS) + AS_BODY_METHOD];

    if (!b) {
        as_frame_body_put(&w, c->body, len, len > AS_COPY_MAX ? owner : NULL);
        return;
    }
    as_body_write_head(b, head);
    as_frame_body_put(&w, head, as_body_head_len(b), NULL);
    as_frame_body_put(&w, (const uint8_t *)b->data.p, b->data.n,
                      b->data.n > AS_COPY_MAX ? owner : NULL);
    for (uint32_t i = 0; i < b->n_buffers; i++)
        put_slice(&w, len, b->buffers[i], owner);
    for (uint32_t i = 0; i < b->n_parts; i++)
        put_slice(&w, len, b->parts[i], owner);
    AS_ASSERT(!w.left);
}

/* Writes header, fixed part and table to p, which has room for `head` bytes (a multiple of 64). */
static void put_message_head(uint8_t *p, size_t head, enum as_frame_type type, uint64_t stream,
                             const struct as_frame_call *c, size_t table, uint64_t body)
{
    bool open = type == AS_FRAME_OPEN, inside = body <= AS_FRAME_INLINE;
    size_t end = inside ? head + (size_t)body : AS_MSG_TABLE + table;
    unsigned flags = (open ? 0 : AS_FRAME_F_MSG) | (inside && !c->more ? AS_FRAME_F_END : 0);

    memset(p + head - AS_FRAME_ALIGN, 0, AS_FRAME_ALIGN);
    put_header(p, (uint8_t)type, (uint8_t)flags, stream, (uint32_t)(end - AS_FRAME_HEADER));
    put64(p + 16, (uint64_t)(open ? c->target : c->ended) << 32 |
                      (uint64_t)(open ? c->priority : 0) << 8 | AS_FRAME_CALL);
    put64(p + 24, open ? c->timeout : c->service);
    put64(p + 32, body);
    put64(p + 40, open ? c->parent : 0);
    put64(p + 48, c->n_meta | (uint64_t)(open ? c->id.n : 0) << 32);
    put64(p + 56, table | (uint64_t)(open ? c->flags : 0) << 32);
    p = put_meta(p + AS_MSG_TABLE, c->meta, c->n_meta);
    if (open)
        put_names(p, c->id, (struct as_str){0});
}

int as_frame_put_call(struct as_outq *q, enum as_frame_type type, uint64_t stream,
                      const struct as_frame_call *c, const struct as_body *body,
                      struct as_blob *owner)
{
    uint64_t len = body ? as_body_len(body) : c->body_len;
    size_t table = table_len(c, type == AS_FRAME_OPEN), head;
    bool copy = len <= (owner ? AS_COPY_MAX : AS_FRAME_INLINE);
    uint8_t *p;

    AS_ASSERT(type == AS_FRAME_OPEN || type == AS_FRAME_DATA);
    if (table > AS_FRAME_TABLE || len < AS_BODY_FIXED || len > AS_MSG_BODY_MAX)
        return AS_ETOOBIG;
    head = AS_ALIGN(AS_MSG_TABLE + table, AS_FRAME_ALIGN);
    p = as_outq_alloc(q, head + (copy ? AS_ALIGN((size_t)len, AS_FRAME_ALIGN) : 0));
    put_message_head(p, head, type, stream, c, table, len);
    if (!copy) {
        put_large(q, stream, c, body, len, owner);
        return 0;
    }
    p += head;
    memset(p + AS_ALIGN((size_t)len, AS_FRAME_ALIGN) - AS_FRAME_ALIGN, 0, AS_FRAME_ALIGN);
    if (body)
        as_body_write(body, p);
    else
        memcpy(p, c->body, (size_t)len);
    return 0;
}

static bool is_name(struct as_str s)
{
    return s.n && as_name_check_line(s) && !memchr(s.p, '#', s.n);
}

static bool is_target(const struct as_frame_target *t)
{
    return t->number <= AS_FRAME_TARGET_MAX && t->application.n < AS_FRAME_NAME &&
           t->deployment.n < AS_FRAME_NAME - t->application.n && is_name(t->application) &&
           is_name(t->deployment);
}

int as_frame_put_target(struct as_outq *q, const struct as_frame_target *t)
{
    uint8_t *p;

    if (!is_target(t))
        return AS_EINVALID;
    p = put_frame(q, AS_FRAME_TARGET, 0, TARGET_FIXED + t->application.n + t->deployment.n);
    put32(p, t->number);
    put16(p + 4, (uint16_t)t->application.n);
    put16(p + 6, (uint16_t)t->deployment.n);
    memcpy(p + TARGET_FIXED, t->application.p, t->application.n);
    memcpy(p + TARGET_FIXED + t->application.n, t->deployment.p, t->deployment.n);
    return 0;
}

int as_frame_get_target(const struct as_frame *f, struct as_frame_target *ret_t)
{
    struct as_frame_target t;

    if (f->n < TARGET_FIXED || f->n != TARGET_FIXED + (uint32_t)get16(f->p + 4) + get16(f->p + 6))
        return AS_EPROTO;
    t.number = get32(f->p);
    t.application = (struct as_str){(const char *)f->p + TARGET_FIXED, get16(f->p + 4)};
    t.deployment = (struct as_str){t.application.p + t.application.n, (size_t)get16(f->p + 6)};
    if (!is_target(&t))
        return AS_EPROTO;
    *ret_t = t;
    return 0;
}

void as_frame_put_reserved(struct as_outq *q, uint64_t stream, struct as_str replica)
{
    struct as_str s = as_utf8_cut(replica, AS_FRAME_NAME);
    uint8_t *p = put_frame(q, AS_FRAME_RESERVED, stream, s.n);

    AS_ASSERT(s.n);
    memcpy(p, s.p, s.n);
}

int as_frame_get_reserved(const struct as_frame *f, struct as_str *ret_replica)
{
    *ret_replica = (struct as_str){(const char *)f->p, f->n};
    return f->n && f->n <= AS_FRAME_NAME && as_name_check_line(*ret_replica) ? 0 : AS_EPROTO;
}

void as_frame_put_report(struct as_outq *q, const struct as_frame_report *r)
{
    uint8_t *p;

    AS_ASSERT(r->text.n <= AS_FRAME_REPORT_MAX);
    p = put_frame(q, AS_FRAME_REPORT, 0, REPORT_FIXED + r->text.n);
    put_header(p - AS_FRAME_HEADER, AS_FRAME_REPORT, AS_FRAME_F_OPTIONAL, 0,
               (uint32_t)(REPORT_FIXED + r->text.n));
    put32(p, r->kind);
    put32(p + 4, 0);
    if (r->text.n)
        memcpy(p + REPORT_FIXED, r->text.p, r->text.n);
}

int as_frame_get_report(const struct as_frame *f, struct as_frame_report *ret_r)
{
    if (f->n < REPORT_FIXED || f->n - REPORT_FIXED > AS_FRAME_REPORT_MAX || !get32(f->p) ||
        get32(f->p + 4))
        return AS_EPROTO;
    *ret_r = (struct as_frame_report){get32(f->p),
                                      {(const char *)f->p + REPORT_FIXED, f->n - REPORT_FIXED}};
    return 0;
}
