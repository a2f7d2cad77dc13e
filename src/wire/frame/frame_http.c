/* HTTP requests: OPEN of kind 2, the head of an answer, messages of websockets. */
#include "wire/frame/frame_http.h"

#include "base/err.h"
#include "wire/frame/frame_table.h"
#include "wire/name_check.h"

#define TEXTS       8u                  /* texts of OPEN, besides the request id */
#define LENGTHS     ((size_t)4 * TEXTS) /* the table of OPEN begins with their lengths */
#define WS_BODY_MAX AS_FRAME_CREDIT_BYTES

static int refuse(const char **ret_why, const char *why)
{
    *ret_why = why;
    return AS_EPROTO;
}

/* The texts of OPEN, in the order of the table. */
static void texts_of(struct as_frame_http_open *o, struct as_str *ret[TEXTS])
{
    struct as_str *t[] = {&o->method, &o->scheme,    &o->authority, &o->path,
                          &o->query,  &o->root_path, &o->peer,      &o->server};

    memcpy(ret, t, sizeof(t));
}

static bool has_control(struct as_str s)
{
    for (size_t i = 0; i < s.n; i++) {
        if ((uint8_t)s.p[i] < 0x20 || (uint8_t)s.p[i] == 0x7f)
            return true;
    }
    return false;
}

/* What all messages of this kind have in the same places. Offsets as in the specification. */
struct fixed {
    uint64_t body_len;
    uint32_t n_meta, id, table;
};

/* `needs`: bytes that the table has in any case. */
static int get_fixed(const struct as_frame *f, bool open, size_t needs, struct fixed *ret_x,
                     const char **ret_why)
{
    const uint8_t *p = f->p - AS_FRAME_HEADER;
    struct fixed x;

    if (open ? f->type != AS_FRAME_OPEN : f->type != AS_FRAME_DATA || !(f->flags & AS_FRAME_F_MSG))
        return refuse(ret_why, "not a message");
    if (f->n < AS_FRAME_FIXED)
        return refuse(ret_why, "message: cut short");
    x = (struct fixed){get64(p + 32), get32(p + 48), get32(p + 52), get32(p + 56)};
    if (p[16] != AS_FRAME_HTTP)
        return refuse(ret_why, "http: its kind is another");
    if (get64(p + 40))
        return refuse(ret_why, "http: reserved bits are set");
    if (x.table > AS_FRAME_TABLE || x.table % 8 || x.table > f->n - AS_FRAME_FIXED)
        return refuse(ret_why, "table: its length is wrong");
    if (x.n_meta > AS_FRAME_PARAMS)
        return refuse(ret_why, "message: a count is over its limit");
    if ((uint64_t)x.n_meta * AS_MSG_META + needs > x.table)
        return refuse(ret_why, "table: cut short");
    *ret_x = x;
    return 0;
}

/* Finds the inline body, and checks that the frame ends where it must. */
static int get_body(const struct as_frame *f, const struct fixed *x, const uint8_t **ret_body,
                    const char **ret_why)
{
    size_t head = AS_ALIGN(AS_MSG_TABLE + (size_t)x->table, AS_FRAME_ALIGN) - AS_FRAME_HEADER;

    *ret_body = NULL;
    if (!x->body_len || x->body_len > AS_FRAME_INLINE)
        return f->n == AS_FRAME_FIXED + x->table
                   ? 0
                   : refuse(ret_why, "message: bytes behind the table");
    if (f->n != head + x->body_len)
        return refuse(ret_why, "body: its length is not what the frame holds");
    *ret_body = f->p + head;
    return 0;
}

static int get_fields(struct table_reader *w, uint32_t n, struct as_arena *a,
                      const struct as_meta **ret_meta, const char **ret_why)
{
    struct as_meta *meta = NULL;

    if (n) {
        meta = as_arena_alloc(a, n * sizeof(*meta), _Alignof(struct as_meta));
        if (!meta)
            return AS_ENOMEM;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (!get_meta(w, &meta[i]))
            return refuse(ret_why, w->why);
    }
    *ret_meta = meta;
    return 0;
}

/* Reads the texts at w, which must be all that is left; lengths: where the table begins. */
static int get_texts(struct table_reader *w, const uint8_t *lengths, uint32_t id,
                     struct as_frame_http_open *o, const char **ret_why)
{
    struct as_str *text[TEXTS];
    uint64_t total = id;
    const char *p = (const char *)w->p + id;

    texts_of(o, text);
    for (size_t i = 0; i < TEXTS; i++)
        total += get32(lengths + 4 * i);
    if (w->n != AS_ALIGN(total, (uint64_t)8))
        return refuse(ret_why, "table: its length is not that of its entries");
    o->id = (struct as_str){(const char *)w->p, id};
    if (!as_name_check_utf8(o->id))
        return refuse(ret_why, "id: not UTF-8");
    for (size_t i = 0; i < TEXTS; i++) {
        *text[i] = (struct as_str){p, get32(lengths + 4 * i)};
        p += text[i]->n;
        if (has_control(*text[i]))
            return refuse(ret_why, "http: a control character");
    }
    if (!o->method.n || !o->path.n)
        return refuse(ret_why, "http: no method or no path");
    return 0;
}

int as_frame_get_http_open(const struct as_frame *f, struct as_arena *a,
                           struct as_frame_http_open *ret_o, const char **ret_why)
{
    const uint8_t *p = f->p - AS_FRAME_HEADER;
    struct as_frame_http_open o = {0};
    struct table_reader w = {.why = ""};
    struct fixed x;
    int err;

    *ret_why = "";
    err = get_fixed(f, true, LENGTHS, &x, ret_why);
    if (!err)
        err = get_body(f, &x, &o.body, ret_why);
    if (err)
        return err;
    o.priority = p[17];
    o.version = p[18];
    o.target = get32(p + 20);
    o.timeout = get64(p + 24);
    o.body_len = x.body_len;
    o.n_meta = x.n_meta;
    o.flags = get32(p + 60);
    if (p[19] || o.flags & ~(AS_HTTP_F_WEBSOCKET | AS_HTTP_F_BEYOND | AS_HTTP_F_WHOLE))
        return refuse(ret_why, "http: reserved bits are set");
    if (o.version != 10 && o.version != 11 && o.version != 20)
        return refuse(ret_why, "http: unknown version");
    if (o.body_len > AS_FRAME_INLINE)
        return refuse(ret_why, "body: its length is out of range");
    if (!(o.flags & AS_HTTP_F_WHOLE) != !(f->flags & AS_FRAME_F_END))
        return refuse(ret_why, "http: END and the flag of a whole body differ");
    if (o.flags & AS_HTTP_F_WEBSOCKET && (o.body_len || o.flags & AS_HTTP_F_WHOLE))
        return refuse(ret_why, "http: a websocket with a body");
    w.p = f->p + AS_FRAME_FIXED + LENGTHS;
    w.n = x.table - LENGTHS;
    err = get_fields(&w, o.n_meta, a, &o.meta, ret_why);
    if (!err)
        err = get_texts(&w, f->p + AS_FRAME_FIXED, x.id, &o, ret_why);
    if (!err)
        *ret_o = o;
    return err;
}

int as_frame_get_http_head(const struct as_frame *f, struct as_arena *a,
                           struct as_frame_http_head *ret_h, const char **ret_why)
{
    const uint8_t *p = f->p - AS_FRAME_HEADER;
    struct as_frame_http_head h = {0};
    struct table_reader w = {.why = ""};
    struct fixed x;
    int err;

    *ret_why = "";
    err = get_fixed(f, false, 0, &x, ret_why);
    if (!err)
        err = get_body(f, &x, &h.body, ret_why);
    if (err)
        return err;
    h.status = get16(p + 18);
    h.ended = get32(p + 20);
    h.service = get64(p + 24);
    h.body_len = x.body_len;
    h.n_meta = x.n_meta;
    h.end = f->flags & AS_FRAME_F_END;
    if (p[17] != AS_HTTP_HEAD)
        return refuse(ret_why, "http: not the head of an answer");
    if (x.id || get32(p + 60))
        return refuse(ret_why, "http: reserved bits are set");
    if (h.status < 101 || h.status > 999)
        return refuse(ret_why, "http: the status is not within 101…999");
    if (h.body_len > AS_FRAME_INLINE)
        return refuse(ret_why, "body: its length is out of range");
    w.p = f->p + AS_FRAME_FIXED;
    w.n = x.table;
    err = get_fields(&w, h.n_meta, a, &h.meta, ret_why);
    if (!err && w.n)
        err = refuse(ret_why, "table: its length is not that of its entries");
    if (!err)
        *ret_h = h;
    return err;
}

int as_frame_get_ws_message(const struct as_frame *f, struct as_frame_ws_message *ret_m,
                            const char **ret_why)
{
    const uint8_t *p = f->p - AS_FRAME_HEADER;
    struct as_frame_ws_message m = {0};
    struct fixed x;
    int err;

    *ret_why = "";
    err = get_fixed(f, false, 0, &x, ret_why);
    if (!err)
        err = get_body(f, &x, &m.body, ret_why);
    if (err)
        return err;
    m.opcode = (enum as_ws_opcode)x.id;
    m.code = get16(p + 18);
    m.body_len = x.body_len;
    m.end = f->flags & AS_FRAME_F_END;
    m.cost = AS_WS_COST(x.body_len);
    if (p[17] != AS_HTTP_WS_MESSAGE)
        return refuse(ret_why, "websocket: not a message");
    if (get32(p + 20) || get64(p + 24) || x.n_meta || x.table || get32(p + 60))
        return refuse(ret_why, "websocket: reserved bits are set");
    if (m.opcode != AS_WS_TEXT && m.opcode != AS_WS_BINARY && m.opcode != AS_WS_CLOSE)
        return refuse(ret_why, "websocket: unknown opcode");
    if (m.body_len > WS_BODY_MAX)
        return refuse(ret_why, "body: its length is out of range");
    if (m.opcode == AS_WS_CLOSE ? m.body_len > AS_WS_REASON || !m.end : m.code != 0)
        return refuse(ret_why, "websocket: a malformed close");
    if (m.body_len > AS_FRAME_INLINE && m.end)
        return refuse(ret_why, "message: ends before its body");
    *ret_m = m;
    return 0;
}

/* --- encoding --- */

struct message {
    uint8_t kind_type[4]; /* offsets 16 … 19 */
    uint32_t word;        /* target, or ended */
    uint64_t time;        /* timeout, or service */
    uint32_t fifth;       /* length of the id, or opcode */
    uint32_t flags;
};

/* A body that is inside its frame, and how. */
struct inside {
    const uint8_t *p;
    size_t n;
    struct as_blob *owner; /* NULL: the bytes are copied */
};

static struct inside inside_of(const uint8_t *body, uint64_t n, struct as_blob *owner)
{
    size_t len = n <= AS_FRAME_INLINE ? (size_t)n : 0;

    return (struct inside){body, len, len > AS_COPY_MAX ? owner : NULL};
}

/* Behind a message with this body, whose table is written. */
static void put_reference(struct as_outq *q, const struct inside *b)
{
    if (!b->owner)
        return;
    as_outq_ref(q, b->owner, b->p, b->n);
    as_outq_copy(q, as_frame_zeros, AS_ALIGN(b->n, AS_FRAME_ALIGN) - b->n);
}

/* Writes header and fixed part of a message, and a body that is to be copied; the table, of `table`
 * bytes, is the caller's, at the result. `end`: of the frame. */
static uint8_t *put_message(struct as_outq *q, enum as_frame_type type, uint64_t stream,
                            const struct message *m, uint32_t n_meta, size_t table,
                            const struct inside *b, uint64_t body_len, bool end)
{
    size_t head = AS_ALIGN(AS_MSG_TABLE + table, AS_FRAME_ALIGN);
    size_t room = b->owner ? 0 : AS_ALIGN(b->n, AS_FRAME_ALIGN);
    uint8_t *p = as_outq_alloc(q, head + room);
    unsigned flags = (type == AS_FRAME_OPEN ? 0 : AS_FRAME_F_MSG) |
                     (end && body_len == b->n ? AS_FRAME_F_END : 0);

    memset(p + head - AS_FRAME_ALIGN, 0, AS_FRAME_ALIGN);
    put_header(p, (uint8_t)type, (uint8_t)flags, stream,
               (uint32_t)((b->n ? head + b->n : AS_MSG_TABLE + table) - AS_FRAME_HEADER));
    memcpy(p + 16, m->kind_type, 4);
    put32(p + 20, m->word);
    put64(p + 24, m->time);
    put64(p + 32, body_len);
    put64(p + 40, 0);
    put32(p + 48, n_meta);
    put32(p + 52, m->fifth);
    put32(p + 56, (uint32_t)table);
    put32(p + 60, m->flags);
    if (room) {
        memset(p + head + room - AS_FRAME_ALIGN, 0, AS_FRAME_ALIGN);
        memcpy(p + head, b->p, b->n);
    }
    return p + AS_MSG_TABLE;
}

/* The size of the table, and of the texts in it; more than AS_FRAME_TABLE if it does not fit. */
static size_t open_table(const struct as_frame_http_open *o, size_t *ret_names)
{
    struct as_frame_http_open copy = *o;
    struct as_str *text[TEXTS];
    size_t names = o->id.n;

    texts_of(&copy, text);
    for (size_t i = 0; i < TEXTS; i++) {
        if (text[i]->n > AS_FRAME_TABLE)
            return AS_FRAME_TABLE + 1;
        names += text[i]->n;
    }
    if (names > AS_FRAME_TABLE || o->n_meta > AS_FRAME_PARAMS)
        return AS_FRAME_TABLE + 1;
    *ret_names = names;
    return LENGTHS + meta_len(o->meta, o->n_meta) + AS_ALIGN(names, 8);
}

bool as_frame_http_open_fits(const struct as_frame_http_open *o)
{
    size_t names;

    return open_table(o, &names) <= AS_FRAME_TABLE;
}

int as_frame_put_http_open(struct as_outq *q, uint64_t stream, const struct as_frame_http_open *o,
                           struct as_blob *owner)
{
    struct as_frame_http_open copy = *o;
    struct message m = {{AS_FRAME_HTTP, o->priority, o->version, 0},
                        o->target,
                        o->timeout,
                        (uint32_t)o->id.n,
                        o->flags};
    struct inside body = inside_of(o->body, o->body_len, owner);
    struct as_str *text[TEXTS];
    size_t names, table;
    uint8_t *p;

    table = open_table(o, &names);
    if (table > AS_FRAME_TABLE || o->body_len > AS_FRAME_INLINE)
        return AS_ETOOBIG;
    texts_of(&copy, text);
    p = put_message(q, AS_FRAME_OPEN, stream, &m, o->n_meta, table, &body, o->body_len,
                    o->flags & AS_HTTP_F_WHOLE);
    for (size_t i = 0; i < TEXTS; i++)
        put32(p + 4 * i, (uint32_t)text[i]->n);
    p = put_meta(p + LENGTHS, o->meta, o->n_meta);
    put64(p + AS_ALIGN(names, 8) - 8, 0); /* method and path are not empty */
    if (o->id.n)
        memcpy(p, o->id.p, o->id.n);
    p += o->id.n;
    for (size_t i = 0; i < TEXTS; i++) {
        if (text[i]->n)
            memcpy(p, text[i]->p, text[i]->n);
        p += text[i]->n;
    }
    put_reference(q, &body);
    return 0;
}

int as_frame_put_http_head(struct as_outq *q, uint64_t stream, const struct as_frame_http_head *h,
                           struct as_blob *owner)
{
    struct message m = {
        {AS_FRAME_HTTP, AS_HTTP_HEAD, (uint8_t)h->status, (uint8_t)(h->status >> 8)},
        h->ended,
        h->service,
        0,
        0};
    struct inside body = inside_of(h->body, h->body_len, owner);
    size_t table;

    if (h->n_meta > AS_FRAME_PARAMS || h->body_len > AS_FRAME_INLINE)
        return AS_ETOOBIG;
    table = meta_len(h->meta, h->n_meta);
    if (table > AS_FRAME_TABLE)
        return AS_ETOOBIG;
    put_meta(
        put_message(q, AS_FRAME_DATA, stream, &m, h->n_meta, table, &body, h->body_len, h->end),
        h->meta, h->n_meta);
    put_reference(q, &body);
    return 0;
}

int as_frame_put_ws_message(struct as_outq *q, uint64_t stream, const struct as_frame_ws_message *m,
                            struct as_blob *owner)
{
    struct message x = {
        {AS_FRAME_HTTP, AS_HTTP_WS_MESSAGE, (uint8_t)m->code, (uint8_t)(m->code >> 8)},
        0,
        0,
        m->opcode,
        0};
    struct inside body = inside_of(m->body, m->body_len, owner);
    bool end = m->end || m->opcode == AS_WS_CLOSE;

    if (m->body_len > (m->opcode == AS_WS_CLOSE ? AS_WS_REASON : WS_BODY_MAX))
        return AS_ETOOBIG;
    put_message(q, AS_FRAME_DATA, stream, &x, 0, 0, &body, m->body_len, end);
    put_reference(q, &body);
    if (m->body_len > AS_FRAME_INLINE)
        as_frame_put_http_data(q, stream, m->body, (size_t)m->body_len, end, owner);
    return 0;
}

void as_frame_put_http_data(struct as_outq *q, uint64_t stream, const uint8_t *p, size_t n,
                            bool end, struct as_blob *owner)
{
    /* a body that is not inside its message: it begins with a frame of its own */
    struct as_frame_body_writer w = {.q = q, .stream = stream, .left = n, .more = !end};

    if (n)
        as_frame_body_put(&w, p, n, n > AS_COPY_MAX ? owner : NULL);
    else if (end)
        put_header(put_frame(q, AS_FRAME_DATA, stream, 0) - AS_FRAME_HEADER, AS_FRAME_DATA,
                   AS_FRAME_F_END, stream, 0);
}
