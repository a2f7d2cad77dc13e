/* The worker library: POLICY records are kept for the runner, and answered by the link that they
 * came by. */
#include "base/buf.h"
#include "wire/frame/frame_policy.h"
#include "worker_pair.h"

#include <string.h>

static int setup(void **state)
{
    static const struct as_worker_model model = {
        .size = sizeof(model), .name = "echo", .max_ongoing = 100};
    struct pair *p = as_xalloc(sizeof(*p));
    struct as_worker_conf conf = {.size = sizeof(conf), .token = "secret", .slots = 4};

    fake_init(&p->d);
    conf.path = p->d.path;
    assert_int_equal(as_worker_new(&p->w, &conf), 0);
    assert_int_equal(as_worker_add(p->w, &model), 0);
    assert_int_equal(fake_connect(&p->d, p->w), 0);
    *state = p;
    return 0;
}

/* A record of n bytes in all, the first of which says which one it is. */
static void send_record(struct pair *p, size_t n, uint8_t mark)
{
    uint8_t *bytes = as_xalloc(n);

    bytes[0] = mark;
    as_frame_put_policy(&p->d.out, (struct as_str){(const char *)bytes, n});
    fake_send(&p->d);
    free(bytes);
}

static struct as_worker_policy *next(struct pair *p)
{
    struct as_worker_policy *got;

    while (!(got = as_worker_next_policy(p->w)))
        assert_int_equal(as_worker_wait(p->w), 0);
    return got;
}

static struct as_str some(size_t n)
{
    static char bytes[AS_WORKER_POLICY_BYTES + 8];

    return (struct as_str){bytes, n};
}

static void records_are_taken_in_order(void **state)
{
    struct pair *p = *state;
    struct as_worker_policy *a, *b;

    assert_null(as_worker_next_policy(p->w)); /* from now on they are kept */
    send_record(p, 16, 1);
    send_record(p, 24, 2);
    a = next(p);
    b = next(p);
    assert_int_equal(as_worker_policy_records(a).n, 16);
    assert_int_equal(as_worker_policy_records(a).p[0], 1);
    assert_int_equal(as_worker_policy_records(b).n, 24);
    assert_int_equal(as_worker_policy_records(b).p[0], 2);
    assert_true(as_worker_policy_origin(a) == as_worker_policy_origin(b));
    as_worker_policy_free(a);
    as_worker_policy_free(b);
    as_worker_policy_free(NULL);
}

static void answers_go_by_the_link_of_the_question(void **state)
{
    struct pair *p = *state;
    struct as_worker_policy *a;
    uint64_t origin;

    assert_int_equal(as_worker_send_policy(p->w, 0, some(16)), 0);
    fake_expect(&p->d, AS_FRAME_POLICY);
    assert_int_equal(p->d.f.n, 16);
    send_record(p, 8, 1); /* kept, since the worker has sent some */
    a = next(p);
    origin = as_worker_policy_origin(a);
    as_worker_policy_free(a);
    assert_int_equal(as_worker_send_policy(p->w, origin, some(24)), 0);
    fake_expect(&p->d, AS_FRAME_POLICY);
    assert_int_equal(p->d.f.n, 24);
    assert_int_equal(as_worker_send_policy(p->w, origin + 1, some(8)), AS_ECANCELLED);
}

static void what_can_be_sent(void **state)
{
    struct pair *p = *state;

    assert_int_equal(as_worker_send_policy(p->w, 0, some(0)), AS_EINVALID);
    assert_int_equal(as_worker_send_policy(p->w, 0, some(12)), AS_EINVALID);
    assert_int_equal(as_worker_send_policy(p->w, 0, some(AS_WORKER_POLICY_BYTES + 8)), AS_EINVALID);
    assert_int_equal(as_worker_send_policy(p->w, 0, some(8)), 0);
}

/* The server sends no more than it was told is read. */
static void a_flood_ends_the_link(void **state)
{
    struct pair *p = *state;
    int outcome;

    assert_null(as_worker_next_policy(p->w));
    for (int i = 0; i < 17; i++) {
        uint8_t *bytes = as_xalloc(AS_FRAME_MAX);

        as_frame_put_policy(&p->d.out, (struct as_str){(const char *)bytes, AS_FRAME_MAX});
        free(bytes);
    }
    do {
        struct iovec iov[16];
        struct msghdr m = {.msg_iov = iov,
                           .msg_iovlen = (size_t)as_outq_iov(&p->d.out, iov, AS_COUNT(iov))};
        ssize_t n = sendmsg(p->d.fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n > 0)
            as_outq_drop(&p->d.out, (size_t)n);
        outcome = as_worker_poll(p->w);
    } while (outcome != AS_EOF);
    assert_non_null(strstr(as_worker_error(p->w), "more POLICY records than were read"));
    assert_null(as_worker_next_policy(p->w)); /* those of a link that has ended are dropped */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(records_are_taken_in_order, setup, pair_teardown),
        cmocka_unit_test_setup_teardown(answers_go_by_the_link_of_the_question, setup,
                                        pair_teardown),
        cmocka_unit_test_setup_teardown(what_can_be_sent, setup, pair_teardown),
        cmocka_unit_test_setup_teardown(a_flood_ends_the_link, setup, pair_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
