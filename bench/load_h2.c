/* bench/load_h2.c — see the header. */
#include "io/loop/clock.h"

#include "load_h2.h"
#include "load_call.h"

#include <errno.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <unistd.h>

#define FRAME_HEAD   9u
#define FRAME_MAX    16384u /* what we announce (the default) and what we send */
#define IN_MAX       ((size_t)256 << 10)
#define OUT_MAX      ((size_t)1 << 20) /* soft: no more is encoded beyond it */
#define WINDOW_MAX   0x7fffffffu
#define WINDOW_START 65535
#define GRANT_AT     (WINDOW_MAX / 2)

/* Ends a connection: the reason is kept, the value is false. */
#define GIVE_UP(c, ...) (note_fault((c)->tally, __VA_ARGS__), false)

enum { DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE };
enum { END_STREAM = 0x1, ACK = 0x1, END_HEADERS = 0x4, PADDED = 0x8, WITH_PRIORITY = 0x20 };

/* One connection with its `streams` calls, each of which starts again when it is answered. The
 * client is written by hand because its cost must be small beside the server's: on one core it
 * would be part of every figure, on two its limit. */
struct as_load_conn {
    int fd;
    const struct as_load_shape *shape;
    struct as_load_tally *tally;
    struct as_load_headers headers;
    struct as_load_call *calls;
    uint32_t in_flight, next_id, hint; /* hint: where the next answer's call probably is */
    struct as_load_call **queue;       /* ring of calls with something to send */
    uint32_t queue_head, queue_n;
    int64_t window, stream_window; /* what the peer lets us send; initial value for streams */
    uint64_t consumed;             /* body bytes received and not yet granted again */
    uint32_t next_slot;            /* open loop: the first to be tried for a new call */
    bool is_ready;                 /* the peer's SETTINGS are here */
    bool is_over;
    bool has_table; /* our header fields are in the peer's table */
    size_t in_n, out_off;
    struct as_buf out;
    uint8_t in[IN_MAX];
};

/* Network order (RFC 9113, section 4.1). */
static uint32_t be(const uint8_t *p, size_t n)
{
    uint32_t v = 0;

    while (n--)
        v = v << 8 | *p++;
    return v;
}

static uint8_t *put_be(uint8_t *p, uint64_t v, size_t n)
{
    for (size_t i = n; i-- > 0; v >>= 8)
        p[i] = (uint8_t)v;
    return p + n;
}

/* Room for a frame's payload of n bytes behind its head. */
static uint8_t *put_frame(struct as_load_conn *c, uint8_t type, uint8_t flags, uint32_t id,
                          size_t n)
{
    uint8_t *p = as_buf_reserve(&c->out, FRAME_HEAD + n);

    c->out.n += FRAME_HEAD + n;
    p = put_be(p, n, 3);
    *p++ = type;
    *p++ = flags;
    return put_be(p, id, 4);
}

/* Only the first: the rest is mostly its consequence. */
AS_PRINTF(2, 3) static void note_fault(struct as_load_tally *t, const char *fmt, ...)
{
    va_list ap;

    if (t->first_fault[0])
        return;
    va_start(ap, fmt);
    vsnprintf(t->first_fault, sizeof(t->first_fault), fmt, ap);
    va_end(ap);
}

struct as_load_conn *as_load_conn_new(int fd, const struct as_load_shape *s,
                                      struct as_load_tally *t)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    struct as_load_conn *c = as_xalloc(sizeof(*c));
    uint8_t *p;

    c->fd = fd;
    c->shape = s;
    c->tally = t;
    c->next_id = 1;
    c->window = c->stream_window = WINDOW_START;
    c->calls = as_xalloc(s->streams * sizeof(*c->calls));
    c->queue = as_xalloc(s->streams * sizeof(*c->queue));
    as_load_headers_init(&c->headers);
    as_buf_add(&c->out, preface, sizeof(preface) - 1);
    p = put_frame(c, SETTINGS, 0, 0, 6);
    p = put_be(p, 4, 2); /* INITIAL_WINDOW_SIZE */
    /* windows as large as they go: what the server's flow control costs is not what this measures
     */
    put_be(p, WINDOW_MAX, 4);
    put_be(put_frame(c, WINDOW_UPDATE, 0, 0, 4), WINDOW_MAX - WINDOW_START, 4);
    return c;
}

void as_load_conn_free(struct as_load_conn *c)
{
    close(c->fd);
    as_load_headers_fini(&c->headers);
    as_buf_fini(&c->out);
    free(c->calls);
    free(c->queue);
    free(c);
}

int as_load_conn_fd(const struct as_load_conn *c)
{
    return c->fd;
}

bool as_load_conn_is_blocked(const struct as_load_conn *c)
{
    return c->out.n > c->out_off;
}

/* --- sending ------------------------------------------------------------------------------- */

/* A ring with room for every call, each of which is in it at most once: it cannot be full. */
static void enqueue(struct as_load_conn *c, struct as_load_call *call)
{
    if (call->is_queued)
        return;
    call->is_queued = true;
    c->queue[(c->queue_head + c->queue_n++) % c->shape->streams] = call;
}

static struct as_load_call *dequeue(struct as_load_conn *c)
{
    struct as_load_call *call = c->queue[c->queue_head];

    c->queue_head = (c->queue_head + 1) % c->shape->streams;
    c->queue_n--;
    call->is_queued = false;
    return call;
}

/* Counted before it is sent: a call that never gets out has failed too. */
static void start_call(struct as_load_conn *c, struct as_load_call *call, as_ns now)
{
    if (c->tally->started == c->tally->start_max || c->next_id > WINDOW_MAX)
        return;
    *call = (struct as_load_call){.id = c->next_id,
                                  .start = now,
                                  .is_queued = call->is_queued,
                                  .window = c->stream_window,
                                  .http_status = AS_LOAD_NO_STATUS,
                                  .grpc_status = AS_LOAD_NO_STATUS};
    c->next_id += 2;
    c->in_flight++;
    /* the number of the call, in its payload: an answer that belongs to another call is found out
     */
    as_load_call_stamp(call, c->shape, ++c->tally->started);
    enqueue(c, call);
}

bool as_load_conn_start(struct as_load_conn *c, as_ns due)
{
    if (!c->is_ready || c->is_over || c->in_flight == c->shape->streams)
        return false;
    while (c->calls[c->next_slot].id)
        c->next_slot = (c->next_slot + 1) % c->shape->streams;
    start_call(c, &c->calls[c->next_slot], due);
    c->next_slot = (c->next_slot + 1) % c->shape->streams;
    return true;
}

bool as_load_conn_has_queue(const struct as_load_conn *c)
{
    return c->queue_n > 0 && !c->is_over;
}

/* The first head fills the peer's table (literals with indexing), all others refer to it. */
static void put_head(struct as_load_conn *c, const struct as_load_call *call)
{
    const struct as_buf *head = c->has_table ? &c->shape->head_next : &c->shape->head;

    memcpy(put_frame(c, HEADERS, END_HEADERS, call->id, head->n), head->p, head->n);
    c->has_table = true;
}

static void put_data(struct as_load_conn *c, struct as_load_call *call, size_t n)
{
    bool is_end = call->sent + n == c->shape->body.n;

    as_load_call_copy_body(call, c->shape, call->sent, n,
                           put_frame(c, DATA, is_end ? END_STREAM : 0, call->id, n));
    call->sent += n;
    call->window -= (int64_t)n;
    c->window -= (int64_t)n;
}

/* Round robin over the calls that have something to send and window for it. A call that waits for
 * its stream's window is put back by WINDOW_UPDATE. */
static void encode_queue(struct as_load_conn *c)
{
    while (c->queue_n && c->window > 0 && c->out.n - c->out_off < OUT_MAX) {
        struct as_load_call *call = dequeue(c);

        /* it was answered before it was sent whole */
        if (!call->id)
            continue;
        if (call->sent == 0)
            put_head(c, call);
        while (call->sent < c->shape->body.n && c->window > 0 && call->window > 0) {
            size_t room = (size_t)AS_MIN(c->window, call->window);

            put_data(c, call, AS_MIN(AS_MIN(room, FRAME_MAX), c->shape->body.n - call->sent));
        }
        if (call->sent < c->shape->body.n && call->window > 0)
            enqueue(c, call);
    }
}

/* What the socket does not take stays; the caller watches for writability then. */
static bool write_once(struct as_load_conn *c)
{
    ssize_t n =
        send(c->fd, c->out.p + c->out_off, c->out.n - c->out_off, MSG_NOSIGNAL | MSG_DONTWAIT);

    if (n < 0)
        return errno == EAGAIN || GIVE_UP(c, "send: %s", strerror(errno));
    c->out_off += (size_t)n;
    if (c->out_off == c->out.n)
        c->out_off = c->out.n = 0;
    return true;
}

/* --- receiving ----------------------------------------------------------------------------- */

/* Answers come mostly in the order of the calls: the hint makes it one comparison. */
static struct as_load_call *find_call(struct as_load_conn *c, uint32_t id)
{
    for (uint32_t i = 0, at = c->hint; id && i < c->shape->streams; i++) {
        if (c->calls[at].id == id) {
            c->hint = at;
            return &c->calls[at];
        }
        at = at + 1 < c->shape->streams ? at + 1 : 0;
    }
    return NULL;
}

/* In a closed loop the answer starts the next call, in the same turn. */
static void finish_call(struct as_load_conn *c, struct as_load_call *call, const char *fault,
                        as_ns now)
{
    struct as_load_tally *t = c->tally;

    t->finished++;
    if (fault) {
        t->failed++;
        note_fault(t, "%s", fault);
    } else if (call->start >= t->count_from) {
        t->ok++;
        as_loghist_add(&t->hist, now - call->start);
    }
    call->id = 0;
    c->in_flight--;
    c->hint = c->hint + 1 < c->shape->streams ? c->hint + 1 : 0;
    if (!c->shape->is_open)
        start_call(c, call, now);
}

static void take_data(struct as_load_conn *c, uint32_t id, const uint8_t *p, size_t n, as_ns now,
                      bool is_end)
{
    struct as_load_call *call = find_call(c, id);

    if (!call)
        return;
    as_load_call_take_body(call, c->shape, p, n);
    if (is_end)
        finish_call(c, call, as_load_call_judge(call, c->shape), now);
}

static bool take_headers(struct as_load_conn *c, uint32_t id, const uint8_t *p, size_t n, as_ns now,
                         bool is_end)
{
    /* Decoded even for a stream that is no more: the table is the connection's. */
    const struct as_load_head *head = as_load_headers_decode(&c->headers, p, n);
    struct as_load_call *call = find_call(c, id);

    if (!head)
        return GIVE_UP(c, "broken header block");
    if (!call)
        return true;
    as_load_call_take_head(call, head);
    if (head->grpc_status > 0)
        note_fault(c->tally, "grpc-status %d: %s", head->grpc_status, head->message);
    if (is_end)
        finish_call(c, call, as_load_call_judge(call, c->shape), now);
    return true;
}

/* Keys of RFC 9113, section 6.5.2: 1 HEADER_TABLE_SIZE, 3 MAX_CONCURRENT_STREAMS, 4
 * INITIAL_WINDOW_SIZE. A server that cannot take the load as it was asked for ends the run. */
static bool take_settings(struct as_load_conn *c, const uint8_t *p, size_t n, as_ns now)
{
    for (; n >= 6; p += 6, n -= 6) {
        uint32_t key = be(p, 2), value = be(p + 2, 4);

        if (key == 1 && value < 1024)
            return GIVE_UP(c, "the server's header table is too small: %u", value);
        if (key == 3 && value < c->shape->streams)
            return GIVE_UP(c, "the server allows only %u streams", value);
        if (key != 4)
            continue;
        for (uint32_t i = 0; i < c->shape->streams; i++)
            /* a change counts for open streams too, and may make their window negative (section
             * 6.9.2) */
            c->calls[i].window += (int64_t)value - c->stream_window;
        c->stream_window = value;
    }
    put_frame(c, SETTINGS, ACK, 0, 0);
    if (!c->is_ready) {
        c->is_ready = true;
        for (uint32_t i = 0; i < c->shape->streams && !c->shape->is_open; i++)
            start_call(c, &c->calls[i], now);
    }
    return true;
}

static void take_window(struct as_load_conn *c, uint32_t id, uint32_t more)
{
    struct as_load_call *call;

    if (id == 0) {
        c->window += more;
    } else if ((call = find_call(c, id))) {
        call->window += more;
        if (call->sent < c->shape->body.n)
            enqueue(c, call);
    }
}

/* One whole frame at p; n: bytes of its payload. Types that we do not know are skipped, as the
 * protocol asks for (section 5.5). */
static bool take_frame(struct as_load_conn *c, const uint8_t *p, size_t n, as_ns now)
{
    uint8_t type = p[3], flags = p[4];
    uint32_t id = be(p + 5, 4) & WINDOW_MAX;
    size_t skip = 0, pad = 0;

    p += FRAME_HEAD;
    if (type == DATA)
        /* padding counts against the window too (section 6.9.1) */
        c->consumed += n;
    if ((type == DATA || type == HEADERS) && (flags & PADDED)) {
        pad = n ? p[0] : 0;
        skip = 1;
    }
    if (type == HEADERS && (flags & WITH_PRIORITY))
        skip += 5;
    if (skip + pad > n || (type == WINDOW_UPDATE && n != 4) || (type == PING && n != 8))
        return GIVE_UP(c, "broken frame of type %u", type);
    p += skip;
    n -= skip + pad;
    switch (type) {
    case DATA:
        take_data(c, id, p, n, now, flags & END_STREAM);
        return true;
    case HEADERS:
        /* no server here sends heads over 16 KiB */
        if (!(flags & END_HEADERS))
            return GIVE_UP(c, "a header block in pieces is not supported");
        return take_headers(c, id, p, n, now, flags & END_STREAM);
    case RST_STREAM: {
        struct as_load_call *call = find_call(c, id);

        if (call)
            finish_call(c, call, "the server reset the stream", now);
        return true;
    }
    case SETTINGS:
        return (flags & ACK) || take_settings(c, p, n, now);
    case PING:
        if (!(flags & ACK))
            memcpy(put_frame(c, PING, ACK, 0, 8), p, 8);
        return true;
    case GOAWAY:
        return GIVE_UP(c, "the server said GOAWAY");
    case WINDOW_UPDATE:
        take_window(c, id, be(p, 4) & WINDOW_MAX);
        return true;
    default:
        return true;
    }
}

static bool read_once(struct as_load_conn *c, as_ns *now)
{
    ssize_t got = recv(c->fd, c->in + c->in_n, sizeof(c->in) - c->in_n, MSG_DONTWAIT);
    size_t at = 0;

    if (got < 0)
        return errno == EAGAIN || GIVE_UP(c, "recv: %s", strerror(errno));
    if (got == 0)
        return GIVE_UP(c, "the server closed the connection");
    *now = as_clock_now();
    c->in_n += (size_t)got;
    while (c->in_n - at >= FRAME_HEAD) {
        size_t n = be(c->in + at, 3);

        if (n > FRAME_MAX)
            return GIVE_UP(c, "a frame of %zu bytes", n);
        if (c->in_n - at < FRAME_HEAD + n)
            break;
        if (!take_frame(c, c->in + at, n, *now))
            return false;
        at += FRAME_HEAD + n;
    }
    /* at most one part of a frame: whole ones are gone */
    memmove(c->in, c->in + at, c->in_n - at);
    c->in_n -= at;
    if (c->consumed > GRANT_AT) {
        put_be(put_frame(c, WINDOW_UPDATE, 0, 0, 4), c->consumed, 4);
        c->consumed = 0;
    }
    return true;
}

bool as_load_conn_turn(struct as_load_conn *c, bool readable, as_ns *now)
{
    bool is_alive = !readable || read_once(c, now);

    if (is_alive) {
        encode_queue(c);
        is_alive = c->out.n == 0 || write_once(c);
    }
    if (!is_alive) {
        /* a connection that ends is a fault even when nothing was under way */
        c->tally->failed += AS_MAX(c->in_flight, 1);
        c->tally->finished += c->in_flight;
        c->in_flight = 0;
        c->is_over = true;
    }
    return is_alive;
}
