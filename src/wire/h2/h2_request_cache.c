/* Request heads that came before, taken from the cache instead of being decoded again.
 *
 * Most connections send the same request head again and again, in header blocks of the same bytes.
 * The same bytes mean the same fields as long as the compression table is the same, and only a
 * literal with indexing or a new table size changes the table (RFC 7541 §6). So a block without
 * either of these that came twice in a row is cached. When it comes again, nghttp2 gets its frame
 * with an empty block, and the stream gets the cached fields. Any other block, and any block that
 * is not complete in one read, clears the cache. It saves a sixth of all instructions of a unary
 * call.
 */
#include "base/err.h"
#include "base/be.h"
#include "wire/h2/h2_internal.h"

#define FRAME_HEAD 9u
#define TEXT_MAX   1024u /* larger heads are decoded each time */

/* The decoded fields of a block; each stream that began with the block holds a reference. */
struct as_h2_cached_request {
    uint32_t refs;
    uint32_t n_fields;
    size_t list_size;
    struct as_h2_rules rules;
    struct as_http_head head;
    struct as_http_header rest[AS_H2_INLINE_REST];
    char text[];
};

void as_h2_cached_request_unref(struct as_h2_cached_request *k)
{
    if (k && --k->refs == 0)
        free(k);
}

void as_h2_request_cache_clear(struct as_h2_request_cache *m)
{
    as_h2_cached_request_unref(m->request);
    m->request = NULL;
    m->n = 0;
}

/* --- blocks --- */

/* Skips an integer whose first byte has `bits` bits for it (RFC 7541 §5.1). False: it is cut, or
 * larger than any valid one. */
static bool skip_integer(const uint8_t **p, const uint8_t *end, unsigned bits, size_t *ret_value)
{
    size_t most = (1u << bits) - 1, v = *(*p)++ & most;

    for (unsigned shift = 0; v >= most; shift += 7) {
        if (*p == end || shift > 14)
            return false;
        v += (size_t)(**p & 0x7f) << shift;
        if (!(*(*p)++ & 0x80))
            break;
    }
    *ret_value = v;
    return true;
}

static bool skip_string(const uint8_t **p, const uint8_t *end)
{
    size_t n;

    if (*p == end || !skip_integer(p, end, 7, &n) || n > (size_t)(end - *p))
        return false;
    *p += n;
    return true;
}

bool as_h2_request_cache_is_cacheable(const uint8_t *block, size_t n)
{
    const uint8_t *p = block, *end = block + n;
    size_t index;

    while (p < end) {
        if (*p & 0x80) {
            if (!skip_integer(&p, end, 7, &index))
                return false;
            continue;
        }
        if (*p & 0x60) /* a literal with indexing, or a new table size */
            return false;
        if (!skip_integer(&p, end, 4, &index) || (!index && !skip_string(&p, end)) ||
            !skip_string(&p, end))
            return false;
    }
    return true;
}

/* --- fields --- */

static void copy_text(struct as_str *s, char **to)
{
    if (!s->p)
        return;
    memcpy(*to, s->p, s->n);
    s->p = *to;
    *to += s->n;
}

/* The fields with a member of their own in the head. */
#define NAMED_FIELDS 8u
static void named_fields(struct as_http_head *h, struct as_str *to[NAMED_FIELDS])
{
    struct as_str *const f[NAMED_FIELDS] = {&h->method,       &h->path,         &h->scheme,
                                            &h->authority,    &h->content_type, &h->te,
                                            &h->grpc_timeout, &h->grpc_encoding};

    memcpy(to, f, sizeof(f));
}

void as_h2_request_cache_learn(struct as_h2 *h, const struct as_h2_stream *s)
{
    struct as_str *own[NAMED_FIELDS];
    struct as_h2_cached_request *k;
    char *text;

    h->request_cache.is_learning = false;
    /* names and values take less than list_size */
    if (s->list_size > TEXT_MAX || s->head.n_rest > AS_H2_INLINE_REST)
        return;
    k = malloc(sizeof(*k) + s->list_size);
    if (!k)
        return;
    k->refs = 1;
    k->n_fields = s->n_fields;
    k->list_size = s->list_size;
    k->rules = s->rules;
    k->head = s->head;
    k->head.rest = k->rest;
    text = k->text;
    named_fields(&k->head, own);
    for (size_t i = 0; i < NAMED_FIELDS; i++)
        copy_text(own[i], &text);
    for (uint32_t i = 0; i < s->head.n_rest; i++) {
        k->rest[i] = s->head.rest[i];
        copy_text(&k->rest[i].name, &text);
        copy_text(&k->rest[i].value, &text);
    }
    AS_ASSERT(text <= k->text + s->list_size);
    AS_ASSERT(!h->request_cache.request);
    h->request_cache.request = k;
}

void as_h2_request_cache_apply(struct as_h2 *h, struct as_h2_stream *s)
{
    struct as_h2_cached_request *k = h->request_cache.request;

    k->refs++;
    s->cached_request = k;
    s->n_fields = k->n_fields;
    s->list_size = k->list_size;
    s->rules = k->rules;
    s->head = k->head;
    h->request_cache.is_hit = false;
}

/* --- frames --- */

static bool feed_session(struct as_h2 *h, const uint8_t *p, size_t n)
{
    ssize_t taken;

    if (!n || h->dead)
        return true;
    taken = nghttp2_session_mem_recv(h->session, p, n);
    AS_ASSERT(taken < 0 || (size_t)taken == n); /* our callbacks never make it pause */
    return taken >= 0;
}

/* True: the frame opens a new stream (trailers may have the same bytes), is complete, and has
 * neither padding nor priority. */
static bool is_plain(const struct as_h2 *h, const uint8_t *frame)
{
    uint8_t flags = NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_PADDED | NGHTTP2_FLAG_PRIORITY;

    return frame[3] == NGHTTP2_HEADERS && (frame[4] & flags) == NGHTTP2_FLAG_END_HEADERS &&
           (as_be_get32(frame + 5) & INT32_MAX) >
               (uint32_t)nghttp2_session_get_last_proc_stream_id(h->session);
}

/* Remembers a header block of n bytes. True: it is the same as the block before. */
static bool lookup_block(struct as_h2 *h, const uint8_t *frame, size_t n)
{
    struct as_h2_request_cache *m = &h->request_cache;
    const uint8_t *block = frame + FRAME_HEAD;
    bool is_plain_one = is_plain(h, frame);

    if (is_plain_one && n && n == m->n && memcmp(m->block, block, n) == 0)
        return true;
    as_h2_request_cache_clear(m);
    if (is_plain_one && n && n <= AS_H2_REQUEST_BLOCK_MAX &&
        as_h2_request_cache_is_cacheable(block, n)) {
        memcpy(m->block, block, n);
        m->n = (uint8_t)n;
    }
    return false;
}

/* Passes this one frame to nghttp2, with the flags of the cache set for its callbacks; earlier
 * frames were passed before. */
static bool feed_head(struct as_h2 *h, const uint8_t *frame, size_t n)
{
    struct as_h2_request_cache *m = &h->request_cache;
    uint8_t empty[FRAME_HEAD] = {0};
    bool ok;

    memcpy(empty + 3, frame + 3, FRAME_HEAD - 3);
    m->is_hit = m->request;
    m->is_learning = !m->request;
    ok =
        m->request ? feed_session(h, empty, sizeof(empty)) : feed_session(h, frame, FRAME_HEAD + n);
    /* nothing is left for the next stream if this one was refused */
    m->is_hit = m->is_learning = false;
    return ok;
}

bool as_h2_request_cache_receive(struct as_h2 *h, const uint8_t *p, size_t n, size_t skip)
{
    size_t from = 0, at = AS_MIN(skip, n);

    if (h->conf.uncached)
        return feed_session(h, p, n);
    if (skip == SIZE_MAX)
        as_h2_request_cache_clear(&h->request_cache);
    while (at < n) {
        size_t len, rest = n - at;
        uint8_t type;

        if (rest < FRAME_HEAD) {
            as_h2_request_cache_clear(&h->request_cache);
            break;
        }
        len = as_be_get32(p + at) >> 8;
        type = p[at + 3];
        if (type == NGHTTP2_CONTINUATION || type == NGHTTP2_PUSH_PROMISE ||
            (type == NGHTTP2_HEADERS && FRAME_HEAD + len > rest)) {
            as_h2_request_cache_clear(&h->request_cache);
        } else if (type == NGHTTP2_HEADERS && lookup_block(h, p + at, len)) {
            if (!feed_session(h, p + from, at - from) || !feed_head(h, p + at, len))
                return false;
            from = at + FRAME_HEAD + len;
        }
        if (FRAME_HEAD + len > rest)
            break;
        at += FRAME_HEAD + len;
    }
    return feed_session(h, p + from, n - from);
}
