/* Specification of io/loop: turns and tasks of the loop, timers, mailboxes, sockets. */
#include "io/loop/loop.h"

#include "base/err.h"
#include "io/loop/mbox.h"
#include "io/loop/sock.h"
#include "unit.h"

#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* --- deferred work --- */

struct work {
    struct as_task task;
    struct as_loop *loop;
    struct as_task *next; /* deferred by this one */
    int runs;
};

static void run_work(struct as_task *t)
{
    struct work *w = AS_CONTAINER(t, struct work, task);

    w->runs++;
    if (w->next)
        as_loop_defer(w->loop, w->next);
    else
        as_loop_stop(w->loop);
}

/* --- work in slices --- */

struct slices {
    struct as_task task, once;
    struct as_loop *loop;
    uint64_t wakes[4]; /* of the loop, at each slice */
    int n, others;
};

static void run_other(struct as_task *t)
{
    AS_CONTAINER(t, struct slices, once)->others++;
}

static void run_slice(struct as_task *t)
{
    struct slices *s = AS_CONTAINER(t, struct slices, task);

    s->wakes[s->n++] = s->loop->stat.wakes;
    if (s->n == 4)
        as_loop_stop(s->loop);
    else
        as_loop_defer_next_turn(s->loop, t);
}

static void sockets_are_polled_before_the_next_turn(void **state AS_UNUSED)
{
    struct slices s = {0};

    assert_int_equal(as_loop_new(&s.loop, 0), 0);
    as_task_init(&s.task, run_slice);
    as_task_init(&s.once, run_other);
    as_loop_defer_next_turn(s.loop, &s.task);
    as_loop_defer_next_turn(s.loop, &s.task); /* no effect: it is pending already */
    as_loop_defer_next_turn(s.loop, &s.once);
    as_loop_run(s.loop);
    for (int i = 1; i < 4; i++)
        assert_int_equal(s.wakes[i], s.wakes[i - 1] + 1); /* one poll between two slices */
    assert_int_equal(s.others, 1);
    as_loop_defer_next_turn(s.loop, &s.once);
    assert_true(as_task_is_pending(&s.once));
    as_task_cancel(&s.once);
    assert_false(as_task_is_pending(&s.once));
    as_loop_free(s.loop);
}

struct kick {
    struct as_timer timer;
    struct work *a;
};

static void on_kick(struct as_timer *t)
{
    struct kick *k = AS_CONTAINER(t, struct kick, timer);

    as_loop_defer(t->loop, &k->a->task);
    as_loop_defer(t->loop, &k->a->task); /* no effect: it is pending already */
}

static void deferred_work_runs_once_and_before_the_loop_sleeps(void **state AS_UNUSED)
{
    struct work a = {0}, b = {0};
    struct kick k = {.a = &a};
    struct as_loop *l;

    assert_int_equal(as_loop_new(&l, 0), 0);
    as_task_init(&a.task, run_work);
    as_task_init(&b.task, run_work);
    a.loop = b.loop = l;
    a.next = &b.task; /* a task that a task defers runs in the same turn */
    as_timer_init(&k.timer, l, on_kick);
    as_timer_set(&k.timer, as_loop_now(l)); /* nothing else wakes the loop */
    as_loop_run(l);
    assert_int_equal(a.runs, 1);
    assert_int_equal(b.runs, 1);
    as_timer_close(&k.timer, NULL);
    as_loop_free(l);
}

struct order {
    struct as_task answers, more, work;
    struct as_loop *loop;
    char ran[8];
};

static void run_answers(struct as_task *t)
{
    struct order *o = AS_CONTAINER(t, struct order, answers);

    strcat(o->ran, "a");
    as_loop_defer_first(o->loop, &o->work); /* it runs before the tasks that are left */
}

static void run_more(struct as_task *t)
{
    struct order *o = AS_CONTAINER(t, struct order, more);

    strcat(o->ran, "m");
    as_loop_stop(o->loop);
}

static void run_urgent(struct as_task *t)
{
    strcat(AS_CONTAINER(t, struct order, work)->ran, "W");
}

static void a_task_deferred_first_runs_first(void **state AS_UNUSED)
{
    struct order o = {.ran = ""};

    assert_int_equal(as_loop_new(&o.loop, 0), 0);
    as_task_init(&o.answers, run_answers);
    as_task_init(&o.more, run_more);
    as_task_init(&o.work, run_urgent);
    as_loop_defer(o.loop, &o.answers);
    as_loop_defer(o.loop, &o.more);
    as_loop_defer_first(o.loop, &o.work);
    as_loop_defer_first(o.loop, &o.work); /* no effect: it is pending already */
    as_loop_run(o.loop);
    assert_string_equal(o.ran, "WaWm");
    as_loop_free(o.loop);
}

/* --- timers --- */

struct alarm {
    struct as_timer timer;
    as_ns fired;
};

static void on_alarm(struct as_timer *t)
{
    struct alarm *a = AS_CONTAINER(t, struct alarm, timer);

    a->fired = as_loop_now(t->loop);
    as_loop_stop(t->loop);
}

static void a_timer_never_fires_early_and_can_be_moved(void **state AS_UNUSED)
{
    struct alarm a = {.fired = 0};
    struct as_loop *l;
    as_ns at;

    assert_int_equal(as_loop_new(&l, 0), 0);
    as_timer_init(&a.timer, l, on_alarm);
    at = as_loop_now(l) + 3 * AS_MS + 1;
    as_timer_set(&a.timer, at + 3600 * AS_SEC);
    as_timer_set(&a.timer, at);
    as_loop_run(l);
    assert_true(a.fired >= at);
    assert_true(a.timer.at == AS_NEVER);
    as_timer_set(&a.timer, at);
    as_timer_set(&a.timer, AS_NEVER);
    as_timer_close(&a.timer, NULL);
    as_loop_free(l);
}

/* --- letters --- */

#define THREADS 4
#define LETTERS 20000

struct parcel {
    struct as_letter letter;
    unsigned thread, number;
};

struct box {
    struct as_mbox mbox;
    struct as_loop *loop;
    unsigned next[THREADS], got;
};

struct poster {
    pthread_t thread;
    struct box *box;
    unsigned me;
};

static void open_parcel(struct as_letter *l, void *to)
{
    struct parcel *p = AS_CONTAINER(l, struct parcel, letter);
    struct box *b = to;

    assert_int_equal(p->number, b->next[p->thread]++);
    free(p);
    if (++b->got == THREADS * LETTERS)
        as_loop_stop(b->loop);
}

static void *post_all(void *arg)
{
    struct poster *me = arg;

    for (unsigned i = 0; i < LETTERS; i++) {
        struct parcel *p = as_xalloc(sizeof(*p));

        p->letter.open = open_parcel;
        p->thread = me->me;
        p->number = i;
        as_mbox_post(&me->box->mbox, &p->letter);
    }
    return NULL;
}

static void letters_of_one_thread_arrive_in_order_and_none_is_lost(void **state AS_UNUSED)
{
    struct box b = {.got = 0};
    struct poster p[THREADS];

    assert_int_equal(as_loop_new(&b.loop, 0), 0);
    assert_int_equal(as_mbox_open(&b.mbox, b.loop, &b), 0);
    for (unsigned i = 0; i < THREADS; i++) {
        p[i] = (struct poster){.box = &b, .me = i};
        pthread_create(&p[i].thread, NULL, post_all, &p[i]);
    }
    as_loop_run(b.loop);
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(p[i].thread, NULL);
        assert_int_equal(b.next[i], LETTERS);
    }
    as_mbox_close(&b.mbox);
    as_loop_free(b.loop);
}

/* --- sockets --- */

#define BULK (4u << 20)

struct end {
    struct as_sock sock;
    struct as_outq out;
    uint8_t *got;
    size_t n;
    int fd;
};

static void on_writer(struct as_sock *s, int events)
{
    struct end *e = AS_CONTAINER(s, struct end, sock);

    if (events & UV_WRITABLE)
        assert_int_equal(as_sock_flush(s, &e->out), 0);
}

static void on_reader(struct as_sock *s, int events AS_UNUSED)
{
    struct end *e = AS_CONTAINER(s, struct end, sock);
    int64_t n;
    int fd = -1;

    n = as_sock_readv(s, &(struct iovec){e->got + e->n, BULK - e->n + 1}, 1, &fd);
    if (fd >= 0) {
        assert_int_equal(e->fd, -1);
        e->fd = fd;
    }
    if (n > 0)
        e->n += (size_t)n;
    if (n == AS_EOF)
        as_loop_stop(s->loop);
    if (e->n == BULK)
        as_loop_stop(s->loop);
}

static void send_fds(int sock, const int *fds, size_t n)
{
    char control[CMSG_SPACE(sizeof(int) * 4)] = {0};
    struct iovec iov = {(char[]){'x'}, 1};
    struct msghdr m = {.msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = control,
                       .msg_controllen = CMSG_SPACE(n * sizeof(int))};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(n * sizeof(int));
    memcpy(CMSG_DATA(c), fds, n * sizeof(int));
    assert_int_equal(sendmsg(sock, &m, 0), 1);
}

static int lowest_free_fd(void)
{
    int fd = dup(0);

    close(fd);
    return fd;
}

static void flush_continues_when_the_socket_has_room(void **state AS_UNUSED)
{
    struct end w = {.fd = -1}, r = {.fd = -1};
    struct as_blob *b = as_blob_new(BULK);
    struct as_loop *l;
    int fds[2];

    memset(b->data, 0x5a, BULK);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    assert_int_equal(as_loop_new(&l, 0), 0);
    assert_int_equal(as_sock_open(&w.sock, l, fds[0], on_writer), 0);
    assert_int_equal(as_sock_open(&r.sock, l, fds[1], on_reader), 0);
    r.got = as_xalloc(BULK + 1);
    as_outq_init(&w.out);
    as_outq_ref(&w.out, b, b->data, BULK);
    as_blob_unref(b);
    assert_int_equal(as_sock_flush(&w.sock, &w.out), 0);
    assert_true(w.out.bytes > 0);
    as_loop_run(l);
    assert_int_equal(r.n, BULK);
    assert_int_equal(r.got[BULK - 1], 0x5a);
    assert_int_equal(w.sock.events & UV_WRITABLE, 0);
    as_sock_close(&w.sock, NULL);
    as_loop_run(l); /* until the reader is at the end */
    as_sock_close(&r.sock, NULL);
    as_outq_fini(&w.out);
    as_loop_free(l);
    free(r.got);
}

static void only_the_first_descriptor_is_kept(void **state AS_UNUSED)
{
    struct end r = {.fd = -1};
    struct as_loop *l;
    int fds[2], before;
    uint8_t bytes[BULK / 4096];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    assert_int_equal(as_loop_new(&l, 0), 0);
    assert_int_equal(as_sock_open(&r.sock, l, fds[1], on_reader), 0);
    before = lowest_free_fd();
    send_fds(fds[0], (int[]){0, 1, 2}, 3);
    assert_int_equal(as_sock_readv(&r.sock, &(struct iovec){bytes, sizeof(bytes)}, 1, &r.fd), 1);
    assert_true(r.fd >= 0);
    close(r.fd);
    assert_int_equal(lowest_free_fd(), before);
    assert_int_equal(as_sock_read(&r.sock, bytes, 1), AS_EAGAIN);
    close(fds[0]);
    assert_int_equal(as_sock_read(&r.sock, bytes, 1), AS_EOF);
    as_sock_close(&r.sock, NULL);
    as_loop_free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deferred_work_runs_once_and_before_the_loop_sleeps),
        cmocka_unit_test(a_task_deferred_first_runs_first),
        cmocka_unit_test(sockets_are_polled_before_the_next_turn),
        cmocka_unit_test(a_timer_never_fires_early_and_can_be_moved),
        cmocka_unit_test(letters_of_one_thread_arrive_in_order_and_none_is_lost),
        cmocka_unit_test(flush_continues_when_the_socket_has_room),
        cmocka_unit_test(only_the_first_descriptor_is_kept),
    };

    return cmocka_run_group_tests_name("loop", tests, NULL, NULL);
}
