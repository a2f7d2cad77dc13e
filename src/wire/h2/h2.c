#include "wire/h2/h2.h"

#include "base/err.h"
#include "base/memory/slab.h"
#include "wire/h2/h2_internal.h"

/* The largest frame that clients may send: a tensor takes fewer frames than with the default of 16
 * KiB. */
#define RECV_FRAME_MAX 262144u
/* The largest window that one stream is widened to. */
#define WINDOW_MAX (16u << 20)

struct as_h2_stream *as_h2_stream_new(struct as_h2 *h, uint32_t id)
{
    struct as_h2_stream *s = h->free;

    if (s) {
        h->free = s->next;
        h->n_free--;
    } else {
        s = as_slab_get(sizeof(*s));
        if (!s)
            return NULL;
    }
    /* The inline buffers at the end are not cleared: most requests use little of them. */
    memset(s, 0, offsetof(struct as_h2_stream, arena));
    as_arena_init(&s->arena, s->mem, sizeof(s->mem));
    s->id = id;
    s->head.rest = s->inline_rest;
    s->rest_cap = AS_H2_INLINE_REST;
    as_list_push(&h->open, &s->node);
    h->n_open++;
    return s;
}

void as_h2_stream_free(struct as_h2 *h, struct as_h2_stream *s)
{
    as_list_remove(&s->node);
    h->n_open--;
    if (s->streamed)
        as_h2_streamed_body_free(s);
    as_h2_cached_request_unref(s->cached_request);
    as_h2_response_cache_release_head(h, s);
    as_arena_fini(&s->arena);
    h->n_early -= s->early;
    if (h->last == s)
        h->last = NULL;
    if (h->n_free == AS_H2_FREE_MAX) {
        as_slab_put(s);
        return;
    }
    s->next = h->free;
    h->free = s;
    h->n_free++;
}

static int new_session(struct as_h2 *h)
{
    nghttp2_session_callbacks *cb = NULL;
    nghttp2_option *opt = NULL;
    int rc = nghttp2_session_callbacks_new(&cb);

    if (!rc)
        rc = nghttp2_option_new(&opt);
    if (!rc) {
        as_h2_set_receive_callbacks(cb);
        as_h2_set_send_callbacks(cb);
        nghttp2_option_set_no_auto_window_update(opt, 1);
        nghttp2_option_set_no_closed_streams(opt, 1);
        nghttp2_option_set_no_http_messaging(opt, 1); /* wire/h2/h2_rules.h checks instead */
        /* The guard checks these, with configurable limits; nghttp2 would end the connection with
         * another code, or without a GOAWAY. */
#ifdef AS_H2_HAVE_RESET_LIMIT
        nghttp2_option_set_stream_reset_rate_limit(opt, UINT32_MAX, UINT32_MAX);
#endif
#ifdef AS_H2_HAVE_CONTINUATION_LIMIT
        nghttp2_option_set_max_continuations(opt, SIZE_MAX);
#endif
        rc = nghttp2_session_server_new3(&h->session, cb, h, opt, &h->memory.mem);
    }
    nghttp2_session_callbacks_del(cb);
    nghttp2_option_del(opt);
    return rc;
}

static int submit_settings(struct as_h2 *h)
{
    const struct as_h2_conf *c = &h->conf;
    /* RFC 7540 priorities are off: their tree costs time per stream, and no gRPC client uses it. */
    nghttp2_settings_entry iv[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, c->max_streams},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, c->stream_window},
        {NGHTTP2_SETTINGS_MAX_FRAME_SIZE, RECV_FRAME_MAX},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, c->max_header_list},
        {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
    };
    int rc = nghttp2_submit_settings(h->session, NGHTTP2_FLAG_NONE, iv, AS_COUNT(iv));

    if (!rc)
        rc = nghttp2_session_set_local_window_size(h->session, NGHTTP2_FLAG_NONE, 0,
                                                   (int32_t)c->conn_window);
    return rc;
}

int as_h2_new(struct as_h2 **ret_h, const struct as_h2_conf *conf, const struct as_http_ops *ops,
              void *conn, as_ns now)
{
    struct as_h2 *h = as_slab_get(sizeof(*h));

    AS_ASSERT(conf->stream_window <= INT32_MAX && conf->conn_window <= INT32_MAX);
    if (!h)
        return AS_ENOMEM;
    *h = (struct as_h2){.conf = *conf, .ops = ops, .conn = conn, .now = now};
    as_list_init(&h->open);
    as_h2_guard_init(&h->guard, &conf->limits, now);
    as_list_init(&h->drained);
    as_h2_memory_init(&h->memory);
    if (new_session(h) || submit_settings(h)) {
        as_h2_free(h);
        return AS_ENOMEM;
    }
    *ret_h = h;
    return 0;
}

void as_h2_free(struct as_h2 *h)
{
    struct as_list *n;

    if (!h)
        return;
    h->dead = true;
    /* nghttp2 calls no callback for streams that are open when the session is deleted. */
    while ((n = as_list_pop(&h->open))) {
        struct as_h2_stream *s = AS_LIST_ENTRY(n, struct as_h2_stream, node);

        if (s->req)
            h->ops->on_close(h->conn, s->req, NGHTTP2_CANCEL);
        as_h2_stream_free(h, s);
    }
    AS_ASSERT(h->n_early == 0);
    as_h2_request_cache_clear(&h->request_cache);
    nghttp2_session_del(h->session);
    as_h2_memory_fini(&h->memory);
    while (h->free) {
        struct as_h2_stream *s = h->free;

        h->free = s->next;
        as_slab_put(s);
    }
    as_slab_put(h);
}

/* The session runs on until the GOAWAY is sent, but its callbacks start no new request. */
static void submit_goaway(struct as_h2 *h, uint32_t code, const char *text)
{
    if (!h->dead && nghttp2_submit_goaway(h->session, NGHTTP2_FLAG_NONE,
                                          nghttp2_session_get_last_proc_stream_id(h->session), code,
                                          (const uint8_t *)text, strlen(text)))
        h->dead = true;
}

void as_h2_check_guard(struct as_h2 *h)
{
    if (!h->guard.breach || h->breach)
        return;
    h->breach = h->guard.breach;
    submit_goaway(h, h->guard.code ? h->guard.code : NGHTTP2_ENHANCE_YOUR_CALM,
                  as_h2_breach_name(h->breach));
}

void as_h2_enhance_your_calm(struct as_h2 *h, const char *text)
{
    if (h->breach || h->ended_by_owner)
        return;
    h->ended_by_owner = true;
    submit_goaway(h, NGHTTP2_ENHANCE_YOUR_CALM, text);
}

/* The last stream of a received GOAWAY is replaced by 0. It could only be a stream that the server
 * opened, and there are none; but some clients send any number (grpc-go its own last stream), which
 * nghttp2 takes for an error. */
static const uint8_t no_stream[4];

int as_h2_recv(struct as_h2 *h, const uint8_t *p, size_t n, as_ns now, size_t *ret_taken)
{
    size_t at = 0;

    h->now = now;
    h->guard.n_blocks = 0;
    while (at < n && !h->dead && !h->breach && !h->ended_by_owner) {
        /* bytes until the next frame head; SIZE_MAX: a frame head came in pieces, so the next one
         * is unknown */
        size_t skip = h->guard.n_head ? SIZE_MAX : h->guard.skip;
        bool is_last = h->guard.n_last;
        size_t k = as_h2_guard_scan(&h->guard, p + at, n - at, now, h->n_open);

        /* false only for errors that end the session at once; other breaches queue a GOAWAY */
        if (k && !as_h2_request_cache_receive(h, is_last ? no_stream : p + at, k, skip)) {
            h->dead = true;
            h->breach = h->breach ? h->breach : AS_H2_PROTOCOL;
        }
        as_h2_check_guard(h);
        at += k;
        if (!k)
            break;
    }
    *ret_taken = at;
    return h->dead || h->breach || h->ended_by_owner ? AS_EPROTO : 0;
}

enum as_h2_breach as_h2_breach(const struct as_h2 *h)
{
    return h->breach;
}

bool as_h2_got_preface(const struct as_h2 *h)
{
    return h->guard.got_preface;
}

as_ns as_h2_header_block_since(const struct as_h2 *h)
{
    return h->guard.in_block ? h->guard.block_since : AS_NEVER;
}

bool as_h2_wants_write(const struct as_h2 *h)
{
    return !h->dead && nghttp2_session_want_write(h->session);
}

bool as_h2_done(const struct as_h2 *h)
{
    return h->dead ||
           (!nghttp2_session_want_read(h->session) && !nghttp2_session_want_write(h->session));
}

void as_h2_consume(struct as_h2 *h, uint32_t stream, size_t n)
{
    struct as_h2_stream *s = h->dead ? NULL : as_h2_find_stream(h, (int32_t)stream);

    h->unreturned += n;
    /* Out of memory: the window would never open again. */
    if (s && !s->last_frame && nghttp2_session_consume_stream(h->session, (int32_t)stream, n))
        h->dead = true;
}

void as_h2_widen_window(struct as_h2 *h, uint32_t stream, size_t n)
{
    int32_t id = (int32_t)stream;
    int32_t window, unconsumed;

    if (h->dead)
        return;
    window = nghttp2_session_get_stream_effective_local_window_size(h->session, id);
    unconsumed = nghttp2_session_get_stream_effective_recv_data_length(h->session, id);
    if (window < 0 || unconsumed < 0) /* the stream is closed */
        return;
    /* The window includes unconsumed bytes, so the n bytes come on top of them. */
    n = AS_MIN(n, (size_t)WINDOW_MAX) + (size_t)unconsumed;
    if (n > (size_t)window &&
        nghttp2_session_set_local_window_size(h->session, NGHTTP2_FLAG_NONE, id,
                                              (int32_t)AS_MIN(n, (size_t)WINDOW_MAX)))
        h->dead = true;
}

void as_h2_reset(struct as_h2 *h, uint32_t stream, uint32_t code)
{
    struct as_h2_stream *s = h->dead ? NULL : as_h2_find_stream(h, (int32_t)stream);

    if (!s)
        return;
    s->answered = true; /* the stream stays until the frame is sent, but no callback is called */
    s->reset = true;
    /* Out of memory: the client would wait for ever. */
    if (nghttp2_submit_rst_stream(h->session, NGHTTP2_FLAG_NONE, (int32_t)stream, code))
        h->dead = true;
}

size_t as_h2_bytes_unsent(struct as_h2 *h, uint32_t stream)
{
    const struct as_h2_stream *s = h->dead ? NULL : as_h2_find_stream(h, (int32_t)stream);

    return s ? s->body_left : 0;
}

uint64_t as_h2_bytes_sent(struct as_h2 *h, uint32_t stream)
{
    const struct as_h2_stream *s = h->dead ? NULL : as_h2_find_stream(h, (int32_t)stream);

    return s ? s->body_sent : 0;
}

void as_h2_ping(struct as_h2 *h)
{
    if (!h->dead && nghttp2_submit_ping(h->session, NGHTTP2_FLAG_NONE, NULL))
        h->dead = true;
}

void as_h2_shutdown_notice(struct as_h2 *h)
{
    if (!h->dead && nghttp2_submit_shutdown_notice(h->session))
        h->dead = true;
}

void as_h2_shutdown_final(struct as_h2 *h)
{
    if (!h->dead && nghttp2_submit_goaway(h->session, NGHTTP2_FLAG_NONE,
                                          nghttp2_session_get_last_proc_stream_id(h->session),
                                          NGHTTP2_NO_ERROR, NULL, 0))
        h->dead = true;
}
