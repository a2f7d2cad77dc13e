/* Specification of ctl/message/message: datagrams between our processes, whole or refused. */
#include "ctl/message/message.h"

#include "io/socket/rights.h"
#include "unit.h"

#include <fcntl.h>
#include <state.pb-c.h>
#include <sys/socket.h>
#include <unistd.h>

static const struct as_ctl_message sample = {.type = AS_CTL_REPLICA,
                                             .state = AS_CTL_READY_STATE,
                                             .pid = 0x12345678,
                                             .restarts = 7,
                                             .number = 0x89abcdef,
                                             .kind = 3,
                                             .id = 0x0123456789abcdef,
                                             .ns = 5 * AS_SEC,
                                             .replica = {"echo-0", 6},
                                             .deployment = {"echo", 4},
                                             .token = {"0123", 4},
                                             .text = {"exit code 1\nlast", 16}};

static void check_equal(const struct as_ctl_message *a, const struct as_ctl_message *b)
{
    assert_int_equal(a->type, b->type);
    assert_int_equal(a->state, b->state);
    assert_int_equal(a->pid, b->pid);
    assert_int_equal(a->restarts, b->restarts);
    assert_int_equal(a->number, b->number);
    assert_int_equal(a->kind, b->kind);
    assert_int_equal(a->id, b->id);
    assert_int_equal(a->ns, b->ns);
    assert_true(as_str_eq(a->replica, b->replica));
    assert_true(as_str_eq(a->deployment, b->deployment));
    assert_true(as_str_eq(a->token, b->token));
    assert_true(as_str_eq(a->text, b->text));
}

static void every_type_comes_back_as_it_was(void **state AS_UNUSED)
{
    for (int t = AS_CTL_NONE + 1; t < AS_CTL_TYPES; t++) {
        struct as_ctl_message m = sample, back;
        uint8_t buf[AS_CTL_MESSAGE_MAX];
        size_t n;

        m.type = (enum as_ctl_type)t;
        n = as_ctl_encode(&m, buf);
        assert_int_equal(as_ctl_decode(buf, n, &back), 0);
        check_equal(&m, &back);
    }
    assert_string_equal(as_ctl_type_name(AS_CTL_TOLD), "TOLD");
    assert_string_equal(as_ctl_state_name(AS_CTL_LOST_STATE), "lost");
}

static void strings_are_bounded_and_long_text_is_cut(void **state AS_UNUSED)
{
    static char big[AS_CTL_TEXT_MAX + 1];
    struct as_ctl_message m = {.type = AS_CTL_DRAIN}, back;
    uint8_t buf[AS_CTL_MESSAGE_MAX];
    size_t n;

    memset(big, 'x', sizeof(big));
    m.replica = m.deployment = m.token = (struct as_str){big, AS_CTL_NAME_MAX};
    m.text = (struct as_str){big, AS_CTL_TEXT_MAX};
    n = as_ctl_encode(&m, buf);
    assert_int_equal(as_ctl_decode(buf, n, &back), 0);
    check_equal(&m, &back);
    m.text.n = AS_CTL_TEXT_MAX + 1;
    n = as_ctl_encode(&m, buf);
    assert_int_equal(as_ctl_decode(buf, n, &back), 0);
    assert_int_equal(back.text.n, AS_CTL_TEXT_MAX);
    m = (struct as_ctl_message){.type = AS_CTL_DRAIN};
    n = as_ctl_encode(&m, buf);
    assert_int_equal(as_ctl_decode(buf, n, &back), 0);
    assert_int_equal(back.text.n, 0);
}

/* A datagram that is cut behind a field is a message without the others, but never one without a
 * type. */
static void a_cut_or_longer_datagram_is_refused(void **state AS_UNUSED)
{
    uint8_t buf[AS_CTL_MESSAGE_MAX + 1] = {0};
    struct as_ctl_message back = {.pid = 42};
    size_t n = as_ctl_encode(&sample, buf), n_refused = 0;

    assert_int_equal(as_ctl_decode(buf, 0, &back), AS_EPROTO);
    assert_int_equal(as_ctl_decode(buf, 1, &back), AS_EPROTO);
    assert_int_equal(as_ctl_decode(buf, n + 1, &back), AS_EPROTO);
    assert_int_equal(as_ctl_decode(buf, sizeof(buf), &back), AS_EPROTO);
    assert_int_equal(back.pid, 42); /* not changed */
    for (size_t i = 0; i < n; i++)
        n_refused += as_ctl_decode(buf, i, &back) < 0;
    assert_int_equal(n_refused, n - 11); /* the fields that may be the last */
}

/* Every byte with every value: accepted or refused, never read beyond the end (ASan watches). */
static void check_hostile(const uint8_t *buf, size_t n, size_t n_bytes, uint32_t n_refused)
{
    uint32_t refused = 0;

    for (size_t i = 0; i < n_bytes; i++) {
        for (unsigned v = 0; v < 256; v++) {
            uint8_t *p = as_xalloc(n);
            struct as_ctl_message back = {0};

            memcpy(p, buf, n);
            p[i] = (uint8_t)v;
            if (as_ctl_decode(p, n, &back) < 0)
                refused++;
            else
                assert_true(!back.text.n || back.text.p + back.text.n <= (char *)p + n);
            free(p);
        }
    }
    assert_true(refused > n_refused);
}

static void hostile_bytes_do_no_harm(void **state AS_UNUSED)
{
    uint8_t buf[AS_CTL_MESSAGE_MAX];
    size_t n = as_ctl_encode(&sample, buf);

    check_hostile(buf, n, n, 1000);
    /* format, type, state and the four lengths leave almost nothing to choose */
    n = as_ctl_former_encode(&sample, buf);
    check_hostile(buf, n, 48, 15 * 250);
}

static As__Control *unpack(const uint8_t *p, size_t n)
{
    As__Control *c = as__control__unpack(NULL, n, p);

    assert_non_null(c);
    return c;
}

/* proto/state.proto is what is written and read. */
static void a_datagram_is_a_message_of_the_schema(void **state AS_UNUSED)
{
    uint8_t buf[AS_CTL_MESSAGE_MAX], again[AS_CTL_MESSAGE_MAX];
    size_t n = as_ctl_encode(&sample, buf);
    As__Control *c = unpack(buf, n);
    struct as_ctl_message back;

    assert_int_equal(c->base.n_unknown_fields, 0);
    assert_int_equal(c->type, AS_CTL_REPLICA);
    assert_int_equal(c->state, AS_CTL_READY_STATE);
    assert_int_equal(c->pid, sample.pid);
    assert_int_equal(c->restarts, 7);
    assert_int_equal(c->number, sample.number);
    assert_int_equal(c->kind, 3);
    assert_int_equal(c->id, sample.id);
    assert_int_equal(c->ns, sample.ns);
    assert_int_equal(c->replica.len, 6);
    assert_memory_equal(c->deployment.data, "echo", 4);
    assert_memory_equal(c->token.data, "0123", 4);
    assert_memory_equal(c->text.data, sample.text.p, sample.text.n);
    assert_int_equal(as__control__pack(c, again), n);
    assert_memory_equal(again, buf, n);
    assert_int_equal(as_ctl_decode(again, n, &back), 0);
    check_equal(&sample, &back);
    as__control__free_unpacked(c, NULL);
}

/* What a later version may write: more fields, more types, more states. */
static void fields_of_a_later_version_are_passed_on(void **state AS_UNUSED)
{
    static const uint8_t later[] = {0x68, 0x01, 0xa2, 0x06, 0x02, 'a', 'b'}; /* 13, 100 */
    static uint8_t big[AS_CTL_MESSAGE_MAX];
    uint8_t buf[AS_CTL_MESSAGE_MAX], again[AS_CTL_MESSAGE_MAX];
    size_t n = as_ctl_encode(&sample, buf);
    struct as_ctl_message back;
    As__Control *c;

    memcpy(buf + n, later, sizeof(later));
    assert_int_equal(as_ctl_decode(buf, n + sizeof(later), &back), 0);
    check_equal(&sample, &back);
    assert_int_equal(as_ctl_encode(&back, again), n + sizeof(later));
    assert_memory_equal(again, buf, n + sizeof(later));
    c = unpack(again, n + sizeof(later));
    assert_int_equal(c->base.n_unknown_fields, 2);
    as__control__free_unpacked(c, NULL);
    /* left out if there is no room */
    back.unknown = (struct as_str){(const char *)big, sizeof(big)};
    assert_int_equal(as_ctl_encode(&back, again), n);
}

static void a_type_of_a_later_version_is_skipped(void **state AS_UNUSED)
{
    static const uint8_t type[] = {0x08, 0xe8, 0x07}, stage[] = {0x08, 0x01, 0x10, 0x63};
    struct as_ctl_message back = {.pid = 42};

    assert_int_equal(as_ctl_decode(type, sizeof(type), &back), AS_EUNIMPLEMENTED);
    assert_int_equal(back.pid, 42);
    assert_int_equal(as_ctl_decode(stage, sizeof(stage), &back), 0);
    assert_int_equal(back.type, AS_CTL_TOKEN);
    assert_int_equal(back.state, AS_CTL_STARTING_STATE);
    assert_int_equal(back.pid, 0); /* missing: the default */
}

/* `sample` as the commit before proto/state.proto wrote it. */
static void the_former_format_is_read(void **state AS_UNUSED)
{
    static const char former[] =
        "\x03\0\x02\0\x01\0\0\0\x78\x56\x34\x12\x07\0\0\0\xef\xcd\xab\x89"
        "\x03\0\0\0\xef\xcd\xab\x89\x67\x45\x23\x01\0\xf2\x05\x2a\x01\0\0\0"
        "\x06\0\x04\0\x04\0\x10\0"
        "echo-0echo0123exit code 1\nlast";
    uint8_t buf[AS_CTL_MESSAGE_MAX];
    struct as_ctl_message back;

    assert_int_equal(as_ctl_decode((const uint8_t *)former, sizeof(former) - 1, &back), 0);
    check_equal(&sample, &back);
    assert_int_equal(as_ctl_former_encode(&sample, buf), sizeof(former) - 1);
    assert_memory_equal(buf, former, sizeof(former) - 1);
}

static void every_type_has_a_sender_and_another_receiver(void **state AS_UNUSED)
{
    for (int t = AS_CTL_NONE + 1; t < AS_CTL_TYPES; t++) {
        uint32_t from = as_ctl_senders((enum as_ctl_type)t);
        uint32_t to = as_ctl_receivers((enum as_ctl_type)t);

        assert_true(from && to && !(from & to));
    }
    /* messages that pass through the supervisor */
    assert_int_equal(as_ctl_receivers(AS_CTL_ASK), AS_CTL_D);
    assert_int_equal(as_ctl_receivers(AS_CTL_READY), AS_CTL_S | AS_CTL_C);
    /* for a type of another version */
    assert_int_equal(as_ctl_senders(AS_CTL_TYPES), 0);
    assert_int_equal(as_ctl_receivers(AS_CTL_TYPES), 0);
}

static void over_the_socket(void **state AS_UNUSED)
{
    uint8_t buf[AS_CTL_MESSAGE_MAX];
    static uint8_t big[AS_CTL_MESSAGE_MAX + 1];
    struct as_ctl_message back;
    int fd[2], sent = 0;

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fd), 0);
    assert_int_equal(as_ctl_receive(fd[1], buf, &back), AS_EAGAIN);
    assert_int_equal(as_ctl_send(fd[0], &sample), 0);
    assert_int_equal(as_ctl_receive(fd[1], buf, &back), 0);
    check_equal(&sample, &back);
    /* an invalid datagram is skipped, and the next one is not lost */
    assert_int_equal(send(fd[0], "hello", 5, 0), 5);
    assert_int_equal(send(fd[0], big, sizeof(big), 0), (int)sizeof(big));
    assert_int_equal(as_ctl_send(fd[0], &sample), 0);
    assert_int_equal(as_ctl_receive(fd[1], buf, &back), AS_EPROTO);
    assert_int_equal(as_ctl_receive(fd[1], buf, &back), AS_EPROTO);
    assert_int_equal(as_ctl_receive(fd[1], buf, &back), 0);
    while (as_ctl_send(fd[0], &sample) == 0)
        sent++;
    assert_true(sent > 10);
    assert_int_equal(as_ctl_send(fd[0], &sample), AS_EAGAIN);
    close(fd[0]);
    while (sent-- > 0)
        assert_int_equal(as_ctl_receive(fd[1], buf, &back), 0);
    assert_int_equal(as_ctl_receive(fd[1], buf, &back), AS_EOF);
    assert_int_equal(as_ctl_send(fd[1], &sample), AS_EOF);
    close(fd[1]);
}

static void what_is_not_read_yet_is_counted(void **state AS_UNUSED)
{
    uint8_t buf[AS_CTL_MESSAGE_MAX];
    struct as_ctl_message back;
    int fd[2], sent = 0;
    size_t before;

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fd), 0);
    assert_int_equal(as_ctl_unread(fd[0]), 0);
    do {
        before = as_ctl_unread(fd[0]);
        assert_int_equal(as_ctl_send(fd[0], &(struct as_ctl_message){.type = AS_CTL_SERVING}), 0);
        assert_true(as_ctl_unread(fd[0]) > before);
        sent++;
    } while (as_ctl_unread(fd[0]) <= AS_CTL_UNREAD_MAX);
    /* below the limit there is room for many more, and for the longest one */
    assert_true(sent > 4);
    assert_int_equal(as_ctl_send(fd[0], &sample), 0);
    while (as_ctl_receive(fd[1], buf, &back) == 0)
        ;
    assert_int_equal(as_ctl_unread(fd[0]), 0);
    close(fd[0]);
    close(fd[1]);
    assert_int_equal(as_ctl_unread(-1), 0);
}

static int send_with_fd(int fd, int passed)
{
    uint8_t buf[AS_CTL_MESSAGE_MAX];

    return as_rights_send(fd, buf, as_ctl_encode(&sample, buf), &passed, 1);
}

static void a_descriptor_is_passed(void **state AS_UNUSED)
{
    uint8_t buf[AS_CTL_MESSAGE_MAX];
    struct as_ctl_message back;
    int fd[2], passed = -1;

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fd), 0);
    assert_int_equal(as_ctl_receive_fd(fd[1], buf, &back, &passed), AS_EAGAIN);
    assert_int_equal(send_with_fd(fd[0], fd[0]), 0);
    assert_int_equal(as_ctl_receive_fd(fd[1], buf, &back, &passed), 0);
    check_equal(&sample, &back);
    assert_true(passed > fd[1]);
    assert_int_equal(as_ctl_send(passed, &sample), 0); /* it is fd[0] */
    close(passed);
    assert_int_equal(as_ctl_receive_fd(fd[1], buf, &back, &passed), 0);
    assert_int_equal(passed, -1);
    /* as_ctl_receive gets no descriptor, and one that comes with an invalid message is closed */
    passed = dup(fd[0]);
    close(passed);
    assert_int_equal(send_with_fd(fd[0], fd[0]), 0);
    assert_int_equal(as_ctl_receive(fd[1], buf, &back), 0);
    assert_int_equal(as_rights_send(fd[0], "hello", 5, fd, 2), 0);
    assert_int_equal(as_ctl_receive_fd(fd[1], buf, &back, &passed), AS_EPROTO);
    assert_int_equal(fcntl(passed, F_GETFD), -1);
    close(fd[0]);
    assert_int_equal(as_ctl_receive_fd(fd[1], buf, &back, &passed), AS_EOF);
    close(fd[1]);
}

static void ask_is_an_operation_and_a_body(void **state AS_UNUSED)
{
    enum as_control_op op = AS_CONTROL_LOG_LEVEL;
    struct as_str body = AS_STR("untouched");

    assert_int_equal(as_ctl_parse_ask(AS_STR("reconfigure {\"rank\": 1}"), &op, &body), 0);
    assert_int_equal(op, AS_CONTROL_RECONFIGURE);
    assert_true(as_str_eq(body, AS_STR("{\"rank\": 1}")));
    assert_int_equal(as_ctl_parse_ask(AS_STR("health"), &op, &body), 0);
    assert_int_equal(op, AS_CONTROL_HEALTH);
    assert_int_equal(body.n, 0);
    assert_int_equal(as_ctl_parse_ask(AS_STR("reconfigured {}"), &op, &body), AS_EUNIMPLEMENTED);
    assert_int_equal(as_ctl_parse_ask(AS_STR(" {}"), &op, &body), AS_EUNIMPLEMENTED);
    assert_int_equal(as_ctl_parse_ask((struct as_str){0}, &op, &body), AS_EUNIMPLEMENTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ask_is_an_operation_and_a_body),
        cmocka_unit_test(every_type_comes_back_as_it_was),
        cmocka_unit_test(strings_are_bounded_and_long_text_is_cut),
        cmocka_unit_test(a_cut_or_longer_datagram_is_refused),
        cmocka_unit_test(hostile_bytes_do_no_harm),
        cmocka_unit_test(a_datagram_is_a_message_of_the_schema),
        cmocka_unit_test(fields_of_a_later_version_are_passed_on),
        cmocka_unit_test(a_type_of_a_later_version_is_skipped),
        cmocka_unit_test(the_former_format_is_read),
        cmocka_unit_test(every_type_has_a_sender_and_another_receiver),
        cmocka_unit_test(over_the_socket),
        cmocka_unit_test(what_is_not_read_yet_is_counted),
        cmocka_unit_test(a_descriptor_is_passed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
