#include "wire/h2/h2_client.h"

#include "base/be.h"
#include "base/err.h"
#include "wire/h2/h2_client_internal.h"

#define BUCKETS       16u
#define BLOCK_MAX     65536u /* bytes of a request's header block */
#define STREAMS_EARLY 100u   /* before the server has said how many it allows */

/* --- streams --- */

static struct as_h2_client_stream **bucket_of(const struct as_h2_client *h, uint32_t id)
{
    return &h->bucket[id >> 1 & (h->n_buckets - 1)];
}

struct as_h2_client_stream *as_h2_client_find(struct as_h2_client *h, uint32_t id)
{
    struct as_h2_client_stream *s = *bucket_of(h, id);

    while (s && s->id != id)
        s = s->next;
    h->last = s;
    return s;
}

/* One stream per bucket on average. */
static void grow_buckets(struct as_h2_client *h)
{
    uint32_t old_n = h->n_buckets;
    struct as_h2_client_stream **old = h->bucket, *s, *next;

    h->n_buckets = old_n ? 2 * old_n : BUCKETS;
    h->bucket = as_xalloc(h->n_buckets * sizeof(struct as_h2_client_stream *));
    for (uint32_t i = 0; i < old_n; i++) {
        for (s = old[i]; s; s = next) {
            struct as_h2_client_stream **to = bucket_of(h, s->id);

            next = s->next;
            s->next = *to;
            *to = s;
        }
    }
    free(old);
}

static struct as_h2_client_stream *add_stream(struct as_h2_client *h)
{
    struct as_h2_client_stream *s = h->spare, **to;

    if (h->n_open == h->n_buckets)
        grow_buckets(h);
    if (s)
        h->spare = s->next;
    else
        s = as_xalloc(sizeof(*s));
    to = bucket_of(h, h->next_id);
    *s = (struct as_h2_client_stream){.id = h->next_id,
                                      .next = *to,
                                      .window = h->stream_window,
                                      .content_length = AS_H2_CLIENT_NO_LENGTH};
    *to = s;
    h->next_id += 2;
    h->n_open++;
    as_list_push(&h->open, &s->node);
    as_list_init(&s->todo);
    return s;
}

static void drop_stream(struct as_h2_client *h, struct as_h2_client_stream *s)
{
    struct as_h2_client_stream **at = bucket_of(h, s->id);

    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    if (h->last == s)
        h->last = NULL;
    h->n_open--;
    h->n_begun -= s->is_begun;
    as_list_remove(&s->node);
    as_list_remove(&s->todo);
    if (s->block.p)
        as_buf_fini(&s->block);
    if (AS_H2_RECYCLE) {
        s->next = h->spare;
        h->spare = s;
    } else {
        free(s);
    }
}

void as_h2_client_close(struct as_h2_client *h, struct as_h2_client_stream *s, uint32_t code)
{
    void *call = s->call;
    bool whole = s->whole && !s->is_reset;

    drop_stream(h, s);
    h->ops->on_close(h->conn, call, code, whole);
}

void as_h2_client_abort(struct as_h2_client *h, struct as_h2_client_stream *s, uint32_t code)
{
    if (s->is_reset)
        return;
    s->is_reset = true;
    s->code = code;
    as_list_remove(&s->todo);
    as_list_push(&h->resets, &s->todo);
}

void as_h2_client_resume(struct as_h2_client *h, struct as_h2_client_stream *s)
{
    if (s->is_begun && !s->is_sent && !s->is_reset && s->window > 0 && as_list_empty(&s->todo))
        as_list_push(&h->sending, &s->todo);
}

/* --- the connection --- */

static void put_preface(struct as_h2_client *h)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    const uint32_t settings[][2] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, h->conf.stream_window},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, h->conf.max_header_list},
        {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
    };
    uint8_t *p;

    as_buf_add(&h->control, preface, sizeof(preface) - 1);
    p = as_h2_client_control(h, NGHTTP2_SETTINGS, 0, 0, 6 * AS_COUNT(settings));
    for (size_t i = 0; i < AS_COUNT(settings); i++, p += 6) {
        p[0] = 0;
        p[1] = (uint8_t)settings[i][0];
        as_be_put32(p + 2, settings[i][1]);
    }
    if (h->conf.conn_window > AS_H2_CLIENT_WINDOW_START)
        as_be_put32(as_h2_client_control(h, NGHTTP2_WINDOW_UPDATE, 0, 0, 4),
                    h->conf.conn_window - AS_H2_CLIENT_WINDOW_START);
}

int as_h2_client_new(struct as_h2_client **ret_h, const struct as_h2_client_conf *conf,
                     const struct as_http_client_ops *ops, void *conn)
{
    struct as_h2_client *h = malloc(sizeof(*h));

    AS_ASSERT(conf->stream_window <= INT32_MAX && conf->conn_window <= INT32_MAX);
    AS_ASSERT(conf->stream_window >= AS_H2_CLIENT_WINDOW_START &&
              conf->conn_window >= AS_H2_CLIENT_WINDOW_START);
    if (!h)
        return AS_ENOMEM;
    *h = (struct as_h2_client){.conf = *conf,
                               .ops = ops,
                               .conn = conn,
                               .next_id = 1,
                               .max_streams = STREAMS_EARLY,
                               .window = AS_H2_CLIENT_WINDOW_START,
                               .stream_window = AS_H2_CLIENT_WINDOW_START};
    if (nghttp2_hd_inflate_new(&h->inflater)) {
        free(h);
        return AS_ENOMEM;
    }
    as_list_init(&h->open);
    as_list_init(&h->waiting);
    as_list_init(&h->sending);
    as_list_init(&h->resets);
    grow_buckets(h);
    put_preface(h);
    *ret_h = h;
    return 0;
}

void as_h2_client_free(struct as_h2_client *h)
{
    struct as_h2_client_stream *s;

    if (!h)
        return;
    h->over = true;
    while (!as_list_empty(&h->open)) {
        s = AS_LIST_ENTRY(h->open.next, struct as_h2_client_stream, node);
        s->is_reset = true;
        as_h2_client_close(h, s, NGHTTP2_CANCEL);
    }
    while ((s = h->spare)) {
        h->spare = s->next;
        free(s);
    }
    nghttp2_hd_inflate_del(h->inflater);
    as_buf_fini(&h->head.plain);
    as_buf_fini(&h->head.first);
    as_buf_fini(&h->head.next);
    as_buf_fini(&h->control);
    as_buf_fini(&h->part);
    free(h->bucket);
    free(h);
}

bool as_h2_client_ready(const struct as_h2_client *h)
{
    return h->ready;
}

bool as_h2_client_done(const struct as_h2_client *h)
{
    return !h->control.n && (h->over || (h->goaway && !h->n_open));
}

bool as_h2_client_usable(const struct as_h2_client *h)
{
    return !h->over && !h->goaway && h->next_id <= AS_H2_CLIENT_ID_MAX;
}

/* --- requests --- */

/* The header block: a repeated head is encoded once. */
static void set_head(struct as_h2_client *h, struct as_h2_client_stream *s,
                     const struct as_http_client_request *r)
{
    if (r->head_id && r->head_id == h->head.id)
        return;
    as_h2_client_encode_plain(&s->block, r->headers, r->n_headers);
    if (s->block.n > BLOCK_MAX) {
        as_h2_client_abort(h, s, NGHTTP2_INTERNAL_ERROR);
        return;
    }
    if (r->head_id && !h->head.id) {
        h->head.id = r->head_id;
        as_h2_client_encode_head(&h->head, r->headers, r->n_headers);
        as_buf_fini(&s->block);
    }
}

int as_h2_client_request(struct as_h2_client *h, const struct as_http_client_request *r, void *call,
                         uint32_t *ret_stream)
{
    struct as_h2_client_stream *s;

    AS_ASSERT(r->n_headers && r->n_headers <= AS_HTTP_CLIENT_HEADERS);
    if (!as_h2_client_usable(h))
        return AS_EUNAVAILABLE;
    s = add_stream(h);
    s->call = call;
    s->body = r->body;
    s->n_body = r->n_body;
    for (uint32_t i = 0; i < r->n_body; i++)
        s->body_left += r->body[i].n;
    as_list_push(&h->waiting, &s->todo);
    set_head(h, s, r);
    *ret_stream = s->id;
    return 0;
}

void as_h2_client_reset(struct as_h2_client *h, uint32_t stream, uint32_t code)
{
    struct as_h2_client_stream *s = as_h2_client_lookup(h, stream);

    if (s && !h->over)
        as_h2_client_abort(h, s, code);
}
