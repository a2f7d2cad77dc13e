/* tests/unit/support/fake_dispatcher.h — the dispatcher's end of a worker's link: listens, greets,
 * sends requests, reads answers.
 *
 * The greeting runs in a thread of its own, because as_worker_connect blocks; after it the test
 * does everything. Waits are bounded by WAIT_MS and end the test when nothing comes.
 */
#ifndef AS_TESTS_FAKE_DISPATCHER_H
#define AS_TESTS_FAKE_DISPATCHER_H

#include "frames.h"

#include <anyserve/worker.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define WAIT_MS 20000
#define RX_CAP  (8u << 20)

struct fake {
    char path[64];
    int listener, fd;
    int page_fd; /* that came with HELLO, or -1 */
    const struct as_page *page;
    struct as_outq out;
    uint8_t *rx;
    size_t at, end;
    struct as_frame f;           /* the last frame read; valid until the next read */
    struct as_frame_hello hello; /* of the worker; texts point into hello_bytes */
    uint8_t hello_bytes[2048];
    struct as_frame_credit credit;
    struct as_frame_options options; /* of the greeting */
    struct as_frame_traffic traffic; /* likewise, without its text … */
    bool traffic_first;              /* … and it came before any model */
    uint32_t n_registered;
    /* how to greet */
    uint64_t more;        /* capabilities beyond those of every dispatcher */
    const char *goodbye;  /* instead of an answer to HELLO */
    uint32_t refuse_code; /* of REGISTERED */
    uint64_t max_message;
    pthread_t thread;
};

static inline void fake_init(struct fake *d)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};

    *d = (struct fake){.fd = -1, .page_fd = -1, .max_message = 64u << 20};
    snprintf(d->path, sizeof(d->path), "/tmp/t_worker.%d", (int)getpid());
    memcpy(a.sun_path, d->path, sizeof(d->path));
    unlink(d->path);
    d->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(d->listener, (struct sockaddr *)&a, sizeof(a)), 0);
    assert_int_equal(listen(d->listener, 4), 0);
    d->rx = aligned_alloc(64, RX_CAP);
    as_outq_init(&d->out);
}

/* Ends the link as a dead dispatcher does; the listener stays. */
static inline void fake_hang_up(struct fake *d)
{
    if (d->fd >= 0)
        close(d->fd);
    if (d->page_fd >= 0)
        close(d->page_fd);
    if (d->page)
        munmap((void *)(uintptr_t)d->page, AS_PAGE_SIZE);
    d->fd = d->page_fd = -1;
    d->page = NULL;
    d->at = d->end = 0;
    d->n_registered = 0;
    as_outq_fini(&d->out);
}

static inline void fake_fini(struct fake *d)
{
    fake_hang_up(d);
    close(d->listener);
    unlink(d->path);
    free(d->rx);
}

static inline void fake_send(struct fake *d)
{
    while (d->out.bytes) {
        struct iovec iov[16];
        int k = as_outq_iov(&d->out, iov, 16);
        ssize_t n =
            sendmsg(d->fd, &(struct msghdr){.msg_iov = iov, .msg_iovlen = (size_t)k}, MSG_NOSIGNAL);

        assert_true(n > 0);
        as_outq_drop(&d->out, (size_t)n);
    }
}

static inline ssize_t fake_recv(struct fake *d, uint8_t *p, size_t n)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec iov = {p, n};
    struct msghdr m = {.msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = control.bytes,
                       .msg_controllen = sizeof(control.bytes)};
    ssize_t got = recvmsg(d->fd, &m, MSG_CMSG_CLOEXEC);
    struct cmsghdr *c = got > 0 ? CMSG_FIRSTHDR(&m) : NULL;

    if (c && c->cmsg_type == SCM_RIGHTS)
        memcpy(&d->page_fd, CMSG_DATA(c), sizeof(int));
    return got;
}

/* Whether a whole frame came before the end of the link; it is in d->f then. */
static inline bool fake_read(struct fake *d)
{
    for (;;) {
        struct pollfd p = {.fd = d->fd, .events = POLLIN};
        int64_t k = as_frame_next(d->rx + d->at, d->end - d->at, &d->f);
        ssize_t n;

        assert_true(k >= 0);
        d->at += (size_t)k;
        if (k)
            return true;
        memmove(d->rx, d->rx + d->at, d->end - d->at);
        d->end -= d->at;
        d->at = 0;
        assert_int_equal(poll(&p, 1, WAIT_MS), 1);
        n = fake_recv(d, d->rx + d->end, RX_CAP - d->end);
        if (n <= 0)
            return false;
        d->end += (size_t)n;
    }
}

static inline void fake_expect(struct fake *d, enum as_frame_type type)
{
    if (!fake_read(d))
        fail_msg("the link ended instead of %s", as_frame_type_name((uint8_t)type));
    if (d->f.type != type)
        fail_msg("%s instead of %s", as_frame_type_name(d->f.type),
                 as_frame_type_name((uint8_t)type));
}

static inline bool fake_is_quiet(struct fake *d)
{
    struct pollfd p = {.fd = d->fd, .events = POLLIN};

    return d->at == d->end && poll(&p, 1, 0) == 0;
}

/* --- greeting --- */

static inline void fake_on_hello(struct fake *d)
{
    struct as_frame_hello h = {.lo = AS_FRAME_VERSION,
                               .hi = AS_FRAME_VERSION,
                               .capabilities =
                                   AS_CAP_PAGE | AS_CAP_RECALL | AS_CAP_CANCEL | d->more,
                               .epoch = 7,
                               .max_message = d->max_message};
    struct as_frame copy = d->f;

    memcpy(d->hello_bytes, d->f.p, AS_MIN((size_t)d->f.n, sizeof(d->hello_bytes)));
    copy.p = d->hello_bytes;
    assert_int_equal(as_frame_get_hello(&copy, &d->hello), 0);
    if (d->goodbye)
        as_frame_put_text(&d->out, AS_FRAME_GOODBYE, as_str_of(d->goodbye));
    else
        as_frame_put_hello(&d->out, &h);
    fake_send(d);
}

/* The model numbers themselves, plus ten, are the targets. */
static inline void fake_on_register(struct fake *d)
{
    struct as_frame_registered a = {.code = d->refuse_code, .message = AS_STR("because")};
    struct as_frame_register r;
    struct as_arena arena;
    const char *why;

    as_arena_init(&arena, NULL, 0);
    assert_int_equal(as_frame_get_register(&d->f, &arena, &r, &why), 0);
    a.model = r.model;
    a.target = r.model + 10;
    as_frame_put_registered(&d->out, &a);
    fake_send(d);
    d->n_registered++;
    as_arena_fini(&arena);
}

static inline void *fake_greet(void *arg)
{
    struct fake *d = arg;

    d->fd = accept4(d->listener, NULL, NULL, SOCK_CLOEXEC);
    while (fake_read(d)) {
        if (d->f.type == AS_FRAME_HELLO) {
            fake_on_hello(d);
        } else if (d->f.type == AS_FRAME_OPTIONS) {
            assert_int_equal(as_frame_get_options(&d->f, &d->options), 0);
        } else if (d->f.type == AS_FRAME_TRAFFIC) {
            assert_int_equal(as_frame_get_traffic(&d->f, &d->traffic), 0);
            d->traffic_first = d->n_registered == 0;
        } else if (d->f.type == AS_FRAME_REGISTER && !d->goodbye &&
                   !(d->refuse_code && d->n_registered)) { /* it may hang up now */
            fake_on_register(d);
        } else if (d->f.type == AS_FRAME_CREDIT) {
            assert_int_equal(as_frame_get_credit(&d->f, &d->credit), 0);
            break;
        }
    }
    return NULL;
}

static inline void fake_greet_begin(struct fake *d)
{
    assert_int_equal(pthread_create(&d->thread, NULL, fake_greet, d), 0);
}

static inline void fake_greet_end(struct fake *d)
{
    pthread_join(d->thread, NULL);
    if (d->page_fd >= 0)
        d->page = mmap(NULL, AS_PAGE_SIZE, PROT_READ, MAP_SHARED, d->page_fd, 0);
}

/* as_worker_connect against this dispatcher; its result. */
static inline int fake_connect(struct fake *d, struct as_worker *w)
{
    int err;

    fake_greet_begin(d);
    err = as_worker_connect(w, 10 * AS_SEC);
    fake_greet_end(d);
    return err;
}

/* --- asking --- */

/* A request of one UINT8 tensor "x" of n bytes, each the low byte of its index plus the stream. */
static inline void fake_ask_of(struct fake *d, uint64_t stream, size_t n, as_ns timeout,
                               uint32_t target)
{
    struct as_blob *b = as_blob_new(n);
    int64_t shape[1] = {(int64_t)n};
    struct as_tensor t = {AS_STR("x"), AS_DT_UINT8, 1, shape, b->data, n};
    struct as_msg msg = {.id = AS_STR("id"), .tensors = &t, .n_tensors = 1};
    struct as_frame_msg fixed = {.kind = AS_FRAME_TENSOR, .target = target, .timeout = timeout};

    for (size_t i = 0; i < n; i++)
        b->data[i] = (uint8_t)(i + stream);
    assert_int_equal(as_frame_put_msg(&d->out, AS_FRAME_OPEN, stream, &fixed, &msg, b), 0);
    as_blob_unref(b);
}

static inline void fake_ask(struct fake *d, uint64_t stream, size_t n)
{
    fake_ask_of(d, stream, n, 0, 10);
}

/* Is this what fake_ask put together? */
static inline bool fake_body_ok(const struct as_tensor *t, uint64_t stream, size_t n)
{
    if (t->nbytes != n || ((uintptr_t)t->data & 63))
        return false;
    for (size_t i = 0; i < n; i++) {
        if (t->data[i] != (uint8_t)(i + stream))
            return false;
    }
    return true;
}

/* The next answer is the echo of fake_ask(stream, n). */
static inline void fake_expect_echo(struct fake *d, uint64_t stream, size_t n)
{
    struct as_frame_msg m;
    struct as_arena a;
    struct as_msg msg;
    const char *why;
    uint64_t got = 0;
    bool last;

    fake_expect(d, AS_FRAME_DATA);
    assert_int_equal(d->f.stream, stream);
    as_arena_init(&a, NULL, 0);
    assert_int_equal(as_frame_get_msg(&d->f, &a, &m, &msg, &why), 0);
    assert_int_equal(m.body_len, n);
    assert_int_equal(msg.n_tensors, 1);
    if (m.body)
        assert_true(fake_body_ok(&msg.tensors[0], stream, n));
    last = d->f.flags & AS_FRAME_F_END;
    while (!last) {
        fake_expect(d, AS_FRAME_DATA);
        assert_int_equal(d->f.stream, stream);
        for (uint32_t i = 0; i < d->f.n; i++)
            assert_int_equal(d->f.p[i], (uint8_t)(got + i + stream));
        got += d->f.n;
        last = d->f.flags & AS_FRAME_F_END;
    }
    assert_int_equal(m.body ? n : got, n);
    as_arena_fini(&a);
}

static inline struct as_frame_error fake_expect_error(struct fake *d, uint64_t stream)
{
    struct as_frame_error e;

    fake_expect(d, AS_FRAME_ERROR);
    assert_int_equal(d->f.stream, stream);
    assert_int_equal(as_frame_get_error(&d->f, &e), 0);
    return e;
}

#endif
