/* Header blocks (RFC 7541). */
#include "wire/h2/h2_client_internal.h"
#include "wire/http/http_field.h"

#define FIRST_ENTRY    62u   /* number of the newest entry that was made */
#define TABLE_SIZE     4096u /* what a server accepts that says nothing else */
#define FIELD_OVERHEAD 32u   /* of a field in a table or list (RFC 9113 §6.5.2) */

/* --- requests --- */

/* Rows of the static table (RFC 7541, appendix A) for the fields of our requests; `value` is NULL
 * if only the name is meant. */
static const struct {
    const char *name, *value;
    uint32_t row;
} rows[] = {
    {":method", "POST", 3},   {":method", "GET", 2},       {":scheme", "http", 6},
    {":path", NULL, 4},       {":authority", NULL, 1},     {"content-type", NULL, 31},
    {"user-agent", NULL, 58}, {"authorization", NULL, 23}, {"accept", NULL, 19},
};

/* Sets *ret_whole if the row has the value, too. 0: there is no row. */
static uint32_t find_row(const struct as_http_header *f, bool *ret_whole)
{
    *ret_whole = false;
    for (size_t i = 0; i < AS_COUNT(rows); i++) {
        if (!as_str_eq(f->name, as_str_of(rows[i].name)))
            continue;
        *ret_whole = rows[i].value && as_str_eq(f->value, as_str_of(rows[i].value));
        if (*ret_whole || !rows[i].value)
            return rows[i].row;
    }
    return 0;
}

/* An integer whose first byte has `bits` bits for it, beside `flags` (RFC 7541 §5.1). */
static void put_integer(struct as_buf *b, uint8_t flags, unsigned bits, size_t v)
{
    size_t most = (1u << bits) - 1;
    uint8_t byte = (uint8_t)(flags | AS_MIN(v, most));

    as_buf_add(b, &byte, 1);
    if (v < most)
        return;
    for (v -= most; v >= 128; v >>= 7) {
        byte = (uint8_t)(v | 128);
        as_buf_add(b, &byte, 1);
    }
    byte = (uint8_t)v;
    as_buf_add(b, &byte, 1);
}

static void put_text(struct as_buf *b, struct as_str s)
{
    put_integer(b, 0, 7, s.n);
    as_buf_add(b, s.p, s.n);
}

/* is_entered: the server enters the field into its table. */
static void put_field(struct as_buf *b, const struct as_http_header *f, bool is_entered)
{
    bool whole;
    uint32_t row = find_row(f, &whole);

    if (whole) {
        put_integer(b, 0x80, 7, row);
        return;
    }
    put_integer(b, is_entered ? 0x40 : 0, is_entered ? 6 : 4, row);
    if (!row)
        put_text(b, f->name);
    put_text(b, f->value);
}

void as_h2_client_encode_plain(struct as_buf *out, const struct as_http_header *f, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        put_field(out, &f[i], false);
}

void as_h2_client_encode_head(struct as_h2_client_head *head, const struct as_http_header *f,
                              uint32_t n)
{
    uint32_t n_entries = 0, row;
    size_t size = 0;
    bool whole;

    as_h2_client_encode_plain(&head->plain, f, n);
    for (uint32_t i = 0; i < n; i++) {
        find_row(&f[i], &whole);
        n_entries += !whole;
        size += whole ? 0 : f[i].name.n + f[i].value.n + FIELD_OVERHEAD;
    }
    if (size > TABLE_SIZE)
        return;
    for (uint32_t i = 0; i < n; i++) {
        put_field(&head->first, &f[i], true);
        row = find_row(&f[i], &whole);
        if (!whole) /* the newest entry has the lowest number */
            row = FIRST_ENTRY + --n_entries;
        put_integer(&head->next, 0x80, 7, row);
    }
}

/* --- answers --- */

/* HTTP/2 has no such fields: an answer with one is malformed (RFC 9113 §8.2.2). */
static bool is_of_connection(struct as_str name, struct as_str value)
{
    if (as_str_eq(name, AS_STR("te")))
        return !as_str_eq(value, AS_STR("trailers"));
    return as_http_field_is_hop_by_hop(name) && !as_str_eq(name, AS_STR("trailer"));
}

/* False: the answer is malformed. */
static bool take_status(struct as_h2_client *h, const struct as_h2_client_stream *s,
                        struct as_str value)
{
    uint64_t status;

    if (s->has_head || h->has_status || h->has_regular || value.n != 3 ||
        as_str_u64(value, &status) || status < 100 || status == 101)
        return false;
    h->has_status = true;
    h->is_interim = status < 200;
    return true;
}

static bool take_length(struct as_h2_client *h, struct as_h2_client_stream *s, struct as_str value)
{
    uint64_t n;

    if (s->has_head || h->is_interim)
        return true;
    if (s->content_length != AS_H2_CLIENT_NO_LENGTH || as_str_u64(value, &n))
        return false;
    s->content_length = n;
    return true;
}

static void take_field(struct as_h2_client *h, struct as_h2_client_stream *s, struct as_str name,
                       struct as_str value)
{
    bool good = true;

    if (!s || s->is_reset || h->is_malformed)
        return;
    s->list_size += name.n + value.n + FIELD_OVERHEAD;
    if (s->list_size > h->conf.max_header_list) {
        as_h2_client_abort(h, s, NGHTTP2_ENHANCE_YOUR_CALM);
        return;
    }
    if (name.n && name.p[0] == ':') {
        good = as_str_eq(name, AS_STR(":status")) && take_status(h, s, value);
    } else {
        h->has_regular = true;
        if (!s->has_head && !h->has_status)
            good = false;
        else if (as_str_eq(name, AS_STR("content-length")))
            good = take_length(h, s, value);
    }
    h->is_malformed = !good;
    if (good && !h->is_interim)
        h->ops->on_field(h->conn, s->call, name, value, s->has_head);
}

/* Not stored: a block with too many fields, or too much text. */
static void store_field(struct as_h2_client_block *m, struct as_str name, struct as_str value)
{
    char *to;

    if (!m->n)
        return;
    if (m->n_fields == AS_H2_CLIENT_BLOCK_FIELDS || name.n + value.n > sizeof(m->text) - m->used) {
        m->n = 0;
        return;
    }
    if (as_str_eq(name, AS_STR(":status")) && !m->n_fields && value.n == 3 && value.p[0] != '1')
        m->has_status = true;
    else if (name.p[0] == ':' || as_str_eq(name, AS_STR("content-length")))
        m->is_special = true;
    m->list_size += (uint32_t)(name.n + value.n) + FIELD_OVERHEAD;
    to = m->text + m->used;
    memcpy(to, name.p, name.n);
    memcpy(to + name.n, value.p, value.n);
    m->used += (uint32_t)(name.n + value.n);
    m->fields[m->n_fields++] = (struct as_http_header){{to, name.n}, {to + name.n, value.n}};
}

/* A field as it was decoded. One whose name or value is not valid is left out. */
static void take_decoded(struct as_h2_client *h, struct as_h2_client_stream *s,
                         struct as_h2_client_block *m, const nghttp2_nv *nv)
{
    struct as_str name = {(const char *)nv->name, nv->namelen};
    struct as_str value = {(const char *)nv->value, nv->valuelen};
    bool is_pseudo = name.n && name.p[0] == ':';

    if (!is_pseudo && (!as_http_field_is_name(name) || !as_http_field_is_value(value)))
        return;
    if (is_of_connection(name, value)) {
        h->is_malformed = true;
        m->n = 0;
        return;
    }
    store_field(m, name, value);
    take_field(h, s, name, value);
}

/* Takes the fields of a block that came before. Those of most answers are good wherever they were
 * good before. */
static void repeat(struct as_h2_client *h, struct as_h2_client_stream *s,
                   const struct as_h2_client_block *m)
{
    bool is_simple = s && !s->is_reset && !m->is_special && m->has_status != s->has_head &&
                     s->list_size + m->list_size <= h->conf.max_header_list;

    if (is_simple) {
        s->list_size += m->list_size;
        h->has_status = m->has_status;
    }
    for (uint32_t i = 0; i < m->n_fields; i++) {
        const struct as_http_header *f = &m->fields[i];

        if (!is_simple)
            take_field(h, s, f->name, f->value);
        else if (!s->is_reset) /* by the owner, for a field before */
            h->ops->on_field(h->conn, s->call, f->name, f->value, s->has_head);
    }
}

static const struct as_h2_client_block *find_block(const struct as_h2_client *h, const uint8_t *p,
                                                   size_t n)
{
    for (uint32_t i = 0; i < h->n_blocks; i++) {
        const struct as_h2_client_block *m = &h->blocks[i];

        if (m->n == n && memcmp(m->bytes, p, n) == 0)
            return m;
    }
    return NULL;
}

static bool inflate(struct as_h2_client *h, struct as_h2_client_stream *s,
                    struct as_h2_client_block *m, const uint8_t *p, size_t n, bool is_end)
{
    for (;;) {
        nghttp2_nv nv;
        int flags = 0;
        ssize_t used = nghttp2_hd_inflate_hd2(h->inflater, &nv, &flags, p, n, is_end);

        if (used < 0)
            return false;
        p += used;
        n -= (size_t)used;
        if (flags & NGHTTP2_HD_INFLATE_EMIT)
            take_decoded(h, s, m, &nv);
        if (flags & NGHTTP2_HD_INFLATE_FINAL) {
            nghttp2_hd_inflate_end_headers(h->inflater);
            return n == 0;
        }
        if (n == 0 && !(flags & NGHTTP2_HD_INFLATE_EMIT))
            return !is_end;
    }
}

static bool decode(struct as_h2_client *h, struct as_h2_client_stream *s, const uint8_t *p,
                   size_t n, bool is_all, bool is_end)
{
    struct as_h2_client_block scratch, *m = &scratch;

    scratch.n = 0; /* nothing is stored there */
    if (!is_all || !as_h2_request_cache_is_cacheable(p, n)) {
        h->n_blocks = 0;
    } else if (n && n <= AS_H2_CLIENT_BLOCK_MAX) {
        h->n_blocks = h->n_blocks == AS_H2_CLIENT_BLOCKS ? 0 : h->n_blocks;
        m = &h->blocks[h->n_blocks];
        *m = (struct as_h2_client_block){.n = (uint32_t)n};
        memcpy(m->bytes, p, n);
    }
    if (!inflate(h, s, m, p, n, is_end))
        return false;
    h->n_blocks += m != &scratch && m->n;
    return true;
}

bool as_h2_client_decode(struct as_h2_client *h, struct as_h2_client_stream *s, const uint8_t *p,
                         size_t n, bool is_all, bool is_end)
{
    const struct as_h2_client_block *known = is_all && n ? find_block(h, p, n) : NULL;

    if (!known)
        return decode(h, s, p, n, is_all, is_end);
    repeat(h, s, known);
    return true;
}
