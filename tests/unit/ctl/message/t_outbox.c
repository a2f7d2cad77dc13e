/* Specification of ctl/message/outbox: messages that a full socket does not take are sent later,
 * in order. */
#include "ctl/message/outbox.h"

#include "unit.h"

#include <sys/socket.h>
#include <unistd.h>

struct world {
    struct as_outbox out;
    int fd, other;
    uint32_t sent, received; /* messages carry their number as pid */
};

static struct world open_world(size_t limit)
{
    struct world w = {0};
    int fd[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd), 0);
    w.fd = fd[0];
    w.other = fd[1];
    as_outbox_init(&w.out, limit);
    return w;
}

static void close_world(struct world *w)
{
    as_outbox_fini(&w->out);
    close(w->fd);
    if (w->other >= 0)
        close(w->other);
}

#define PID 0x10000000u /* and above: as many bytes in each message */

static int send_one(struct world *w, enum as_ctl_type type)
{
    struct as_ctl_message m = {
        .type = type, .pid = PID + w->sent, .token = AS_STR("0123456789abcdef")};
    int rc = as_outbox_send(&w->out, w->fd, &m);

    w->sent += rc == 0;
    return rc;
}

/* Reads what the socket has: each message is complete, and the next one in order. */
static enum as_ctl_type receive_one(struct world *w)
{
    uint8_t buf[AS_CTL_MESSAGE_MAX];
    struct as_ctl_message m = {0};
    enum as_ctl_type last = AS_CTL_NONE;

    while (as_ctl_receive(w->other, buf, &m) == 0) {
        assert_int_equal(m.pid, PID + w->received++);
        assert_true(as_str_eq(m.token, AS_STR("0123456789abcdef")));
        last = m.type;
    }
    return last;
}

static void fill(struct world *w)
{
    while (!as_outbox_has_pending(&w->out))
        assert_int_equal(send_one(w, AS_CTL_READY), 0);
}

static void what_fits_is_sent_at_once(void **state AS_UNUSED)
{
    struct world w = open_world(AS_OUTBOX_LIMIT);

    assert_int_equal(send_one(&w, AS_CTL_KILL), 0);
    assert_false(as_outbox_has_pending(&w.out));
    assert_int_equal(receive_one(&w), AS_CTL_KILL);
    assert_int_equal(as_outbox_flush(&w.out, w.fd), 0); /* nothing to do */
    close_world(&w);
}

static void a_full_socket_loses_nothing(void **state AS_UNUSED)
{
    struct world w = open_world(AS_OUTBOX_LIMIT);
    uint32_t held;

    fill(&w);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(send_one(&w, AS_CTL_GONE), 0);
    assert_int_equal(send_one(&w, AS_CTL_KILL), 0);
    assert_int_equal(as_outbox_flush(&w.out, w.fd), 0); /* still full */
    receive_one(&w);
    held = w.received;
    assert_true(held < w.sent);
    /* the socket has room, but waiting messages come first */
    assert_int_equal(send_one(&w, AS_CTL_KILL), 0);
    assert_int_equal(receive_one(&w), AS_CTL_NONE);
    while (as_outbox_has_pending(&w.out)) {
        assert_int_equal(as_outbox_flush(&w.out, w.fd), 0);
        assert_int_not_equal(receive_one(&w), AS_CTL_NONE);
    }
    assert_int_equal(w.received, w.sent);
    close_world(&w);
}

static void the_limit_is_exact(void **state AS_UNUSED)
{
    uint8_t buf[AS_CTL_MESSAGE_MAX];
    struct as_ctl_message m = {
        .type = AS_CTL_GONE, .pid = PID, .token = AS_STR("0123456789abcdef")};
    size_t one = 2 + as_ctl_encode(&m, buf); /* as large as the READY of fill */
    struct world w = open_world(3 * one);

    fill(&w);
    assert_int_equal(w.out.wait.n, one);
    assert_int_equal(send_one(&w, AS_CTL_GONE), 0);
    assert_int_equal(send_one(&w, AS_CTL_GONE), 0);
    assert_int_equal(w.out.wait.n, w.out.limit);
    assert_int_equal(send_one(&w, AS_CTL_GONE), AS_EFULL);
    assert_int_equal(w.out.wait.n, w.out.limit);
    receive_one(&w);
    assert_int_equal(as_outbox_flush(&w.out, w.fd), 0);
    assert_int_equal(send_one(&w, AS_CTL_KILL), 0); /* room again */
    assert_int_equal(receive_one(&w), AS_CTL_KILL); /* only the refused one was lost */
    assert_int_equal(w.received, w.sent);
    close_world(&w);
    w = open_world(3 * one - 1);
    fill(&w);
    assert_int_equal(send_one(&w, AS_CTL_GONE), 0);
    assert_int_equal(send_one(&w, AS_CTL_GONE), AS_EFULL);
    close_world(&w);
}

static void a_closed_end_is_reported(void **state AS_UNUSED)
{
    struct world w = open_world(AS_OUTBOX_LIMIT);

    fill(&w);
    close(w.other);
    w.other = -1;
    assert_int_equal(as_outbox_flush(&w.out, w.fd), AS_EOF);
    close_world(&w);
    w = open_world(AS_OUTBOX_LIMIT);
    close(w.other);
    w.other = -1;
    assert_int_equal(send_one(&w, AS_CTL_READY), AS_EOF);
    assert_false(as_outbox_has_pending(&w.out));
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_fits_is_sent_at_once),
        cmocka_unit_test(a_full_socket_loses_nothing),
        cmocka_unit_test(the_limit_is_exact),
        cmocka_unit_test(a_closed_end_is_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
