/* Specification of link/simple: connections that end, and what becomes of their requests. */
#include "simple_world.h"

static void test_closed_without_an_answer(void **state AS_UNUSED)
{
    struct call c;
    struct taken t;
    struct hand h;

    begin_alone(&h, false);
    submit(&c, 1);
    hand_take(&h, 0, &t); /* it has all of it */
    hand_hang_up(&h, 0);
    check_failed(&c, AS_EMAYHAVERUN);
    assert_true(logged("closed without an answer"));
    drop(&t);
    end_with(&h);
}

static void test_closed_in_the_middle_of_an_answer(void **state AS_UNUSED)
{
    struct call c;
    struct taken t;
    struct hand h;

    begin_alone(&h, false);
    submit(&c, 1);
    hand_take(&h, 0, &t);
    hand_write(&h, 0, "\0\0\0\7abc", 7);
    hand_hang_up(&h, 0);
    check_failed(&c, AS_EMAYHAVERUN);
    assert_true(logged("closed in the middle of an answer"));
    drop(&t);
    end_with(&h);
}

static void test_an_idempotent_request_is_repeated(void **state AS_UNUSED)
{
    struct call c;
    struct taken t;
    struct hand h;

    begin_alone(&h, true);
    submit(&c, 1);
    hand_take(&h, 0, &t);
    hand_write(&h, 0, "\0\0\0\7abc", 7);
    hand_hang_up(&h, 0);
    hand_accept(&h, 1);
    hand_serve(&h, 1);
    check_good(&c);
    drop(&t);
    end_with(&h);
}

/* The kernel tells that bytes of it were left unread, so no handler has seen it. */
static void test_a_request_that_was_not_read_is_repeated(void **state AS_UNUSED)
{
    struct call c;
    struct hand h;
    uint8_t some[6];

    begin_alone(&h, false);
    submit(&c, 1);
    UNTIL(peek(h.conn[0], sizeof(some)));
    assert_int_equal(recv(h.conn[0], some, sizeof(some), 0), sizeof(some));
    hand_hang_up(&h, 0);
    hand_accept(&h, 1);
    hand_serve(&h, 1);
    check_good(&c);
    assert_false(logged("worker_fault"));
    end_with(&h);
}

/* A worker that never reads what it accepts does not make it go round for ever. */
static void test_repeating_ends(void **state AS_UNUSED)
{
    struct call c;
    struct hand h;
    int n = 0;

    begin_alone(&h, false);
    submit(&c, 1);
    while (!c.releases) {
        if (h.conn[0] < 0 && take_conn(&h, 0) < 0) {
            turn();
            continue;
        }
        UNTIL(peek(h.conn[0], 1) || c.releases);
        hand_hang_up(&h, 0);
        n++;
    }
    check_failed(&c, AS_EUNAVAILABLE);
    assert_int_equal(n, 1 + AS_REQUEST_RETRIES);
    end_with(&h);
}

static void test_a_connection_that_ends_while_it_rests(void **state AS_UNUSED)
{
    struct hand h;

    begin_alone(&h, false);
    exchange(&h, 0);
    /* the loop has not heard of it when the next request is sent */
    hand_hang_up(&h, 0);
    exchange_anew(&h, 1);
    /* or it has */
    hand_hang_up(&h, 1);
    UNTIL((replicas(), shown.connections == 0));
    assert_true(state_is("ready"));
    end_with(&h);
}

static void test_a_connection_that_rests_too_long(void **state AS_UNUSED)
{
    struct as_fleet_conf conf = usual();
    struct hand h;

    conf.simple_idle = 30 * AS_MS;
    begin_alone_with(conf, &h, false);
    exchange(&h, 0);
    UNTIL(ended(h.conn[0]));
    assert_int_equal(as_simple_stat(w.fleet).idle, 1);
    assert_true(state_is("ready"));
    end_with(&h);
}

#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_closed_without_an_answer),
        T(test_closed_in_the_middle_of_an_answer),
        T(test_an_idempotent_request_is_repeated),
        T(test_a_request_that_was_not_read_is_repeated),
        T(test_repeating_ends),
        T(test_a_connection_that_ends_while_it_rests),
        T(test_a_connection_that_rests_too_long),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
