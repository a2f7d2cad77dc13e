/* fuzz/f_worker.c — plays a hostile dispatcher against the worker library, with requests and calls
 * in flight.
 *
 * The input is a script: well-formed frames in any order with fuzzed numbers and bodies, raw
 * frames, raw bytes; requests that are started and answered, and calls that are opened, read,
 * cancelled, freed and detached in between. Whatever it does, the worker must neither crash nor
 * leak, and when the link has ended no request and no call is left.
 */
#include "link/worker/worker_internal.h"
#include "wire/frame/body.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define HELD  8 /* requests and calls that the program has at once */
#define LARGE (200u << 10)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct sockaddr_un address;
static int listener = -1;

struct world {
    struct as_worker *w;
    int peer;
    struct as_outq out; /* to the worker */
    struct as_worker_req *q[HELD];
    struct as_worker_out *o[HELD];
    bool lost;
};

static uint8_t large[LARGE];

/* The input. When it is used up every further byte reads as 0: any cut of an input is an input. */
struct script {
    const uint8_t *p;
    size_t n;
};

static uint8_t byte(struct script *s)
{
    if (!s->n)
        return 0;
    s->n--;
    return *s->p++;
}

/* --- the dispatcher --- */

static void drain_peer(struct world *x)
{
    uint8_t bytes[65536];

    while (recv(x->peer, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
        ;
}

static void turn(struct world *x)
{
    int second;

    (void)as_worker_poll(x->w);
    while ((second = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) /* after MOVE */
        close(second);
    x->lost = !as_worker_connected(x->w);
    drain_peer(x);
}

static void flush(struct world *x)
{
    while (x->out.bytes && !x->lost) {
        struct iovec iov[16];
        int k = as_outq_iov(&x->out, iov, 16);
        ssize_t n = sendmsg(x->peer, &(struct msghdr){.msg_iov = iov, .msg_iovlen = (size_t)k},
                            MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n > 0)
            as_outq_drop(&x->out, (size_t)n);
        turn(x);
    }
}

/* Mostly well-formed: a body of fuzzed contents, or any bytes; *ret_n of them. */
static uint8_t *make_body(struct script *s, size_t *ret_n)
{
    struct as_str slices[4];
    uint8_t how = byte(s);
    struct as_body b = {.codec = 1 + (how & 1),
                        .flags = how & 2 ? AS_BODY_F_EXCEPTION : 0,
                        .data = {(const char *)large, how & 4 ? LARGE : byte(s)},
                        .buffers = slices,
                        .n_buffers = (how >> 3) & 3};
    uint8_t *p;

    if (how & 0x80) {
        *ret_n = AS_BODY_FIXED + byte(s);
        p = as_xalloc(*ret_n);
        for (size_t i = 0; i < *ret_n; i++)
            p[i] = byte(s);
        return p;
    }
    if (how & 0x40)
        b.method = AS_STR("method");
    for (uint32_t i = 0; i < b.n_buffers; i++)
        slices[i] = (struct as_str){(const char *)large, byte(s)};
    *ret_n = (size_t)as_body_len(&b);
    p = as_xalloc(*ret_n);
    as_body_write(&b, p);
    return p;
}

static void put_call(struct world *x, struct script *s, enum as_frame_type type, uint64_t stream)
{
    uint8_t flags = byte(s);
    struct as_frame_call c = {.target = flags & 0x40 ? 11 : 10,
                              .flags = type == AS_FRAME_OPEN ? flags & 3 : 0,
                              .id = AS_STR("id"),
                              .timeout = flags & 4 ? AS_SEC * 3600 : 0,
                              .more = flags & 0x80};
    size_t n;
    uint8_t *body = make_body(s, &n);

    c.body = body;
    c.body_len = n;
    (void)as_frame_put_call(&x->out, type, stream, &c, NULL, NULL);
    free(body);
}

static void put_tensors(struct world *x, struct script *s, uint64_t stream)
{
    int64_t shape[1] = {byte(s)};
    struct as_tensor t = {AS_STR("x"), AS_DT_UINT8, 1, shape, large, (size_t)shape[0]};
    struct as_msg msg = {.tensors = &t, .n_tensors = 1};
    struct as_frame_msg fixed = {.kind = AS_FRAME_TENSOR, .target = 10 + (byte(s) & 1)};

    (void)as_frame_put_msg(&x->out, stream & 1 ? AS_FRAME_OPEN : AS_FRAME_DATA, stream, &fixed,
                           &msg, NULL);
}

/* A frame with any header and any bytes. */
static void put_raw(struct world *x, struct script *s, uint64_t stream)
{
    uint32_t n = byte(s);
    uint8_t *p = as_outq_alloc(&x->out, AS_ALIGN(AS_FRAME_HEADER + (size_t)n, AS_FRAME_ALIGN));

    memset(p, 0, AS_ALIGN(AS_FRAME_HEADER + (size_t)n, AS_FRAME_ALIGN));
    p[0] = (uint8_t)n;
    p[4] = byte(s) % 30;
    p[5] = byte(s) & 0x83;
    p[8] = (uint8_t)stream;
    for (uint32_t i = 0; i < n; i++)
        p[AS_FRAME_HEADER + i] = byte(s);
}

static void put_small(struct world *x, struct script *s, uint8_t what, uint64_t stream)
{
    struct as_frame_credit credit = {.messages = byte(s), .bytes = (uint64_t)byte(s) << 8};
    struct as_frame_error error = {.code = 1 + byte(s) % 17, .message = AS_STR("no")};
    uint64_t ids[2] = {stream | 1, (stream | 1) + 2};

    if (what == 0)
        as_frame_put_end(&x->out, stream, 0);
    else if (what == 1)
        as_frame_put_error(&x->out, stream, &error);
    else if (what == 2)
        as_frame_put_credit(&x->out, stream, &credit);
    else if (what == 3)
        as_frame_put_credit(&x->out, 0, &credit);
    else if (what == 4)
        as_frame_put_cancel(&x->out, stream | 1, 1);
    else if (what == 5)
        as_frame_put_ids(&x->out, AS_FRAME_RECALL, ids, 2);
    else if (what == 7)
        as_frame_put_reserved(&x->out, stream & ~(uint64_t)1, AS_STR("a#B-0"));
    else
        as_frame_put_ping(&x->out, AS_FRAME_PING, 1);
}

/* --- the program --- */

static void start(struct world *x)
{
    for (int i = 0; i < HELD; i++) {
        if (!x->q[i]) {
            x->q[i] = as_worker_next(x->w);
            return;
        }
    }
}

static void answer(struct world *x, struct script *s)
{
    static const struct as_str parts[1] = {{(const char *)large, 24}};
    struct as_worker_req **q = &x->q[byte(s) % HELD];
    uint8_t how = byte(s);
    struct as_body b = {.codec = AS_BODY_BYTES, .data = {(const char *)large, how & 1 ? LARGE : 9}};

    if (!*q)
        return;
    if (how & 2) {
        b.parts = parts; /* no body */
        b.n_parts = 1;
    }
    if (how & 4) {
        (void)as_worker_part_body(x->w, *q, &b);
        return;
    }
    if (how & 8)
        as_worker_fail(x->w, *q, AS_STATUS_INTERNAL, AS_STR("failed"));
    else if (how & 16)
        as_worker_finish(x->w, *q);
    else if (as_worker_answer_body(x->w, *q, &b))
        return;
    *q = NULL;
}

static void open_call(struct world *x, struct script *s)
{
    uint8_t how = byte(s);
    struct as_body b = {.codec = AS_BODY_BYTES, .data = {(const char *)large, how & 1 ? LARGE : 5}};
    struct as_worker_open v = {.size = sizeof(v),
                               .body = &b,
                               .stream = how & 2,
                               .every = (how & 6) == 6,
                               .window = how & 8 ? 3 : 0,
                               .timeout = how & 16 ? 1 : 0,
                               .parent = how & 32 ? x->q[byte(s) % HELD] : NULL,
                               .reserve = (how & 66) == 64};

    for (int i = 0; i < HELD; i++) {
        if (!x->o[i]) {
            AS_ASSERT(as_worker_open(x->w, &v, &x->o[i]) == 0);
            return;
        }
    }
}

static void use_out(struct world *x, struct script *s)
{
    struct as_worker_out **o = &x->o[byte(s) % HELD];
    struct as_worker_out_msg m;
    uint8_t all = byte(s), how = all % 7;
    struct as_body b = {.codec = AS_BODY_BYTES,
                        .data = {(const char *)large, all & 64 ? LARGE : 5}};
    struct as_worker_open v = {.size = sizeof(v), .body = &b, .stream = all & 128, .window = 2};

    if (!*o)
        return;
    if (how == 6) {
        (void)as_worker_use_slot(*o, &v);
        return;
    }
    if (how == 0)
        as_worker_out_cancel(*o);
    else if (how == 1)
        as_worker_out_grant(*o, byte(s));
    else if (how == 2 && as_worker_out_read(*o, &m) == 0)
        as_worker_release_hold(as_worker_out_hold(*o));
    else if (how == 3)
        (void)as_worker_out_wait(*o, 0);
    if (how < 4)
        return;
    (how == 4 ? as_worker_out_free : as_worker_out_detach)(*o);
    *o = NULL;
}

static void step(struct world *x, struct script *s)
{
    uint8_t op = byte(s) % 16;
    uint64_t stream = byte(s) % 24;

    if (op < 3)
        put_call(x, s, AS_FRAME_OPEN, stream | 1);
    else if (op < 6)
        put_call(x, s, AS_FRAME_DATA, stream);
    else if (op == 6)
        put_tensors(x, s, stream);
    else if (op == 7)
        put_raw(x, s, stream);
    else if (op < 10)
        put_small(x, s, byte(s) % 8, stream);
    else if (op == 10)
        start(x);
    else if (op == 11)
        answer(x, s);
    else if (op < 14)
        open_call(x, s);
    else
        use_out(x, s);
    flush(x);
    turn(x);
    (void)as_worker_next_news(x->w);
}

/* --- one run --- */

static void listen_once(void)
{
    if (listener >= 0)
        return;
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    address = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "/tmp/f_worker.%d", (int)getpid());
    unlink(address.sun_path);
    AS_ASSERT(bind(listener, (struct sockaddr *)&address, sizeof(address)) == 0 &&
              listen(listener, 4) == 0);
}

static void connect_world(struct world *x)
{
    struct as_worker_conf conf = {
        .size = sizeof(conf), .path = address.sun_path, .token = "t", .slots = 2};
    struct as_worker_model calls = {.size = sizeof(calls), .name = "A", .opaque = true};
    struct as_worker_model tensors = {.size = sizeof(tensors), .name = "T"};
    struct as_frame_hello h = {.lo = 1,
                               .hi = 1,
                               .capabilities = AS_CAP_CALLS | AS_CAP_RESERVE,
                               .epoch = 1,
                               .max_message = 1 << 20};
    struct as_frame_credit window = {.messages = 3, .bytes = 1 << 20};
    uint32_t target;
    int r;

    listen_once();
    AS_ASSERT(as_worker_new(&x->w, &conf) == 0);
    AS_ASSERT(as_worker_add(x->w, &calls) == 0 && as_worker_add(x->w, &tensors) == 0);
    AS_ASSERT(as_worker_target(x->w, "a", "B", &target) == 0);
    AS_ASSERT(as_worker_connect_begin(x->w) == 0);
    x->peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    as_outq_init(&x->out);
    as_frame_put_hello(&x->out, &h);
    for (uint32_t i = 0; i < 2; i++) {
        struct as_frame_registered reg = {.model = i, .target = 10 + i};

        as_frame_put_registered(&x->out, &reg);
    }
    as_frame_put_credit(&x->out, 0, &window);
    flush(x);
    while ((r = as_worker_connect_step(x->w)) == AS_EAGAIN)
        ;
    AS_ASSERT(r == 0);
}

static void end_world(struct world *x)
{
    for (int i = 0; i < HELD; i++) {
        if (x->q[i] && i % 2)
            as_worker_fail(x->w, x->q[i], AS_STATUS_INTERNAL, AS_STR("over"));
    }
    shutdown(x->peer, SHUT_RDWR);
    do
        turn(x);
    while (!x->lost);
    for (int i = 0; i < HELD; i++) {
        if (x->q[i] && !(i % 2))
            as_worker_fail(x->w, x->q[i], AS_STATUS_INTERNAL, AS_STR("over"));
        if (x->o[i])
            as_worker_out_free(x->o[i]);
    }
    pthread_mutex_lock(&x->w->mu);
    as_worker_fail_unsent(x->w, "over"); /* those that were detached */
    AS_ASSERT(!x->w->n_running && !x->w->n_busy && !x->w->n_calls && as_list_empty(&x->w->outs));
    AS_ASSERT(!x->w->n_news);
    pthread_mutex_unlock(&x->w->mu);
    as_worker_free(x->w);
    close(x->peer);
    as_outq_fini(&x->out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct script s = {data, size};
    struct world x = {0};

    large[0] = AS_BODY_BYTES; /* and zeros: an empty body */
    connect_world(&x);
    while (s.n && !x.lost)
        step(&x, &s);
    end_world(&x);
    return 0;
}
