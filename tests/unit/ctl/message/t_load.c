/* Specification of ctl/message/load: the text of LOAD. */
#include "ctl/message/load.h"

#include "unit.h"

static uint32_t seen[16], n_seen;

static void see(void *arg AS_UNUSED, uint32_t number, uint32_t requests)
{
    if (n_seen < AS_COUNT(seen) / 2) {
        seen[2 * n_seen] = number;
        seen[2 * n_seen + 1] = requests;
    }
    n_seen++;
}

static struct as_ctl_load parse(struct as_str text)
{
    struct as_ctl_load l;

    n_seen = 0;
    as_ctl_load_parse(text, &l, see, NULL);
    return l;
}

static void it_comes_back_as_it_was_written(void **state AS_UNUSED)
{
    struct as_ctl_load l = {.has_times = true, .slots = 12}, back;
    struct as_buf text = {0};

    l.times.accepted = UINT64_MAX;
    l.times.service_sum = 5;
    l.times.service[0] = 1;
    l.times.service[AS_SERVICE_BUCKETS - 1] = 7;
    l.times.latency[3] = 9;
    as_ctl_load_put(&l, &text);
    as_ctl_load_put_replica(3, 0, &text);
    as_ctl_load_put_replica(999999, 4000000000u, &text);
    back = parse(as_buf_slice(&text));
    assert_memory_equal(&l, &back, sizeof(l));
    assert_int_equal(n_seen, 2);
    assert_int_equal(seen[0], 3);
    assert_int_equal(seen[1], 0);
    assert_int_equal(seen[2], 999999);
    assert_int_equal(seen[3], 4000000000u);
    as_buf_fini(&text);
}

static void without_times_there_are_only_slots(void **state AS_UNUSED)
{
    struct as_ctl_load l = {.slots = 4};
    struct as_buf text = {0};

    as_ctl_load_put(&l, &text);
    assert_string_equal(as_buf_cstr(&text), "slots=4");
    assert_false(parse(as_buf_slice(&text)).has_times);
    as_buf_fini(&text);
}

static void what_is_malformed_is_skipped(void **state AS_UNUSED)
{
    struct as_ctl_load l = parse(AS_STR("x :: 1: :1 1:x -1:2 slots=-1 slots= later=3 slots=5 =9 "
                                        "service=1,x,3 latency=, 99999999999999999999:1 7:8"));

    assert_int_equal(l.slots, 5);
    assert_int_equal(l.times.service[0], 1);
    assert_int_equal(l.times.service[1], 0);
    assert_int_equal(l.times.service[2], 3);
    assert_int_equal(n_seen, 1);
    assert_int_equal(seen[0], 7);
    l = parse(AS_STR("service=1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1"));
    assert_int_equal(l.times.service[AS_SERVICE_BUCKETS - 1], 1);
    parse(AS_STR(""));
    assert_int_equal(n_seen, 0);
}

static void many_replicas_fit(void **state AS_UNUSED)
{
    struct as_buf text = {0};

    for (uint32_t i = 0; i < 20000; i++)
        as_ctl_load_put_replica(i, UINT32_MAX, &text);
    assert_true(text.n >= AS_CTL_LOAD_TEXT_MAX && text.n < AS_CTL_LOAD_TEXT_MAX + 32);
    parse(as_buf_slice(&text));
    assert_true(n_seen > 1024);
    as_buf_fini(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_comes_back_as_it_was_written),
        cmocka_unit_test(without_times_there_are_only_slots),
        cmocka_unit_test(what_is_malformed_is_skipped),
        cmocka_unit_test(many_replicas_fit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
