/* link/simple/simple_handover: handing workers over to another dispatcher. */
#include "simple_world.h"

static struct {
    uint8_t encoded[4096];
    size_t n;
    uint64_t epoch;
    uint32_t count;
} legacy;

static void on_legacy(void *arg AS_UNUSED, const struct as_simple_saved_registration *l)
{
    assert_true(l->encoded.n <= sizeof(legacy.encoded));
    memcpy(legacy.encoded, l->encoded.p, l->encoded.n);
    legacy.n = l->encoded.n;
    legacy.epoch = l->epoch;
    legacy.count++;
}

static int inherit(const struct hand *h, size_t n)
{
    struct as_simple_saved_registration l = {
        as_str_of(h->id), as_str_of(h->address), {(const char *)legacy.encoded, n}, legacy.epoch};

    return as_simple_restore(w.fleet, &l, why, sizeof(why));
}

static uint32_t fewer[8], n_fewer;

static void on_fewer(void *arg AS_UNUSED, struct as_str worker, uint64_t epoch, uint32_t n)
{
    assert_true(as_str_eq(worker, AS_STR("a")) && epoch == legacy.epoch);
    fewer[n_fewer++] = n;
}

static void test_the_old_dispatcher_reports_its_requests(void **state AS_UNUSED)
{
    struct call c[3];
    struct taken t[2];
    struct hand h;

    begin_with(usual());
    legacy.count = n_fewer = 0;
    as_simple_start_handover(w.fleet, on_fewer, NULL); /* none has ever come */
    as_simple_each_registration(w.fleet, on_legacy, NULL);
    assert_int_equal(legacy.count, 0);
    hand_open(&h, "a");
    h.slots = 2;
    hand_join(&h, false);
    hand_accept(&h, 0);
    as_simple_each_registration(w.fleet, on_legacy, NULL);
    assert_int_equal(legacy.count, 1);
    assert_int_equal(legacy.epoch, h.epoch);
    for (uint8_t i = 0; i < 3; i++)
        submit(&c[i], i);
    hand_accept(&h, 1);
    hand_take(&h, 0, &t[0]);
    hand_take(&h, 1, &t[1]);
    as_simple_start_handover(w.fleet, on_fewer, NULL);
    assert_int_equal(n_fewer, 1);
    assert_int_equal(fewer[0], 2);
    hand_answer(&h, 0, &t[0]); /* one that was queued takes its place */
    check_good(&c[0]);
    hand_serve(&h, 0);
    check_good(&c[2]);
    assert_int_equal(n_fewer, 2);
    assert_int_equal(fewer[1], 1);
    hand_answer(&h, 1, &t[1]);
    check_good(&c[1]);
    assert_int_equal(n_fewer, 3);
    assert_int_equal(fewer[2], 0);
    UNTIL(ended(h.conn[0]) && ended(h.conn[1])); /* the worker may wait for the next connection */
    drop(&t[0]);
    drop(&t[1]);
    end_with(&h);
}

static void test_the_new_dispatcher_waits_for_its_slots(void **state)
{
    struct call c[3];
    struct hand h;
    uint64_t epoch;

    begin_with(usual());
    hand_open(&h, "a");
    h.slots = 2;
    hand_join(&h, true);
    as_simple_each_registration(w.fleet, on_legacy, NULL);
    epoch = h.epoch;
    end_with(&h);
    tear_down(state);
    set_up(state);
    begin_with(usual());
    hand_open(&h, "a");
    assert_int_equal(inherit(&h, legacy.n), 0);
    hand_accept(&h, 0);
    assert_int_equal(replicas(), 1);
    assert_int_equal(shown.epoch, epoch);
    assert_int_equal(shown.slots, 0);
    for (uint8_t i = 0; i < 3; i++)
        submit(&c[i], i);                                     /* they wait, and are not refused */
    as_simple_limit_lent(w.fleet, AS_STR("a"), epoch + 1, 0); /* another registration */
    as_simple_limit_lent(w.fleet, AS_STR("b"), epoch, 0);
    assert_int_equal((replicas(), shown.slots), 0);
    as_simple_limit_lent(w.fleet, AS_STR("a"), epoch, 1);
    assert_int_equal((replicas(), shown.slots), 1);
    as_simple_limit_lent(w.fleet, AS_STR("a"), epoch, 2); /* never back */
    assert_int_equal((replicas(), shown.slots), 1);
    hand_serve(&h, 0);
    check_good(&c[0]);
    as_simple_limit_lent(w.fleet, (struct as_str){0}, 0, 0);
    assert_int_equal((replicas(), shown.slots), 2);
    hand_accept(&h, 1);
    hand_serve(&h, 0);
    hand_serve(&h, 1);
    check_good(&c[1]);
    check_good(&c[2]);
    assert_int_equal(as_simple_leave(w.fleet, AS_STR("a"), AS_STR("m"), AS_STR("1"), epoch), 0);
    UNTIL(replicas() == 0);
    end_with(&h);
}

static void test_a_registration_that_is_invalid(void **state AS_UNUSED)
{
    struct hand h;

    begin_with(usual());
    hand_open(&h, "a");
    hand_join(&h, false);
    as_simple_each_registration(w.fleet, on_legacy, NULL);
    for (size_t n = 0; n < legacy.n; n++) {
        assert_int_equal(inherit(&h, n), AS_EPROTO);
        assert_true(why[0]);
    }
    hand_close(&h); /* nobody listens there any more */
    assert_int_equal(inherit(&h, legacy.n), AS_EUNAVAILABLE);
    assert_int_equal(replicas(), 1);
    end();
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(test_the_old_dispatcher_reports_its_requests),
        T(test_the_new_dispatcher_waits_for_its_slots),
        T(test_a_registration_that_is_invalid),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
